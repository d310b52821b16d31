// SPDX-License-Identifier: GPL-2.0-or-later

// goload of docs/fidelity/jobs: an HTTP server, whose every answer costs some JSON and garbage, and its clients.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const address = "127.0.0.1:8090"

func serve(items int) error {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		m := map[string]int{}
		for i := 0; i < items; i++ {
			m[fmt.Sprint("k", i)] = i
		}
		b, _ := json.Marshal(m)
		w.Write(b)
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return http.Serve(l, nil)
}

func ask(connections int, think, duration time.Duration) int64 {
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	var n atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	for i := 0; i < connections; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			client := &http.Client{Transport: transport}
			for time.Now().Before(end) {
				if r, err := client.Get("http://" + address + "/"); err == nil {
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
					n.Add(1)
				}
				if think > 0 {
					time.Sleep(think)
				}
			}
		}()
	}
	all.Wait()
	return n.Load()
}

func main() {
	mode := flag.String("m", "srv", "srv or cli")
	connections := flag.Int("c", 16, "connections of the clients")
	duration := flag.Duration("d", 2*time.Second, "how long they ask")
	think := flag.Duration("think", 0, "pause of each after an answer")
	items := flag.Int("w", 20, "items of an answer")
	flag.Parse()
	if *mode == "cli" {
		fmt.Println("requests", ask(*connections, *think, *duration))
		return
	}
	if err := serve(*items); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
