# SPDX-License-Identifier: GPL-2.0-or-later
# /app.sh of docs/fidelity/jobs: a real server and who loads it, on one machine. app.sh NAME ARGUMENTS
a=$1; shift
case $a in
  redis)
    redis-server --save "" --appendonly no --daemonize yes --logfile /tmp/redis.log > /dev/null; sleep 0.5
    exec redis-benchmark "$@" ;;
  redisn) # so many servers, each with one who loads it
    n=$1; shift; i=0
    while [ $i -lt $n ]; do
      redis-server --port $((6379+i)) --save "" --daemonize yes --logfile /tmp/redis$i.log > /dev/null; i=$((i+1)); done
    sleep 0.5; i=1
    while [ $i -lt $n ]; do redis-benchmark -p $((6379+i)) "$@" > /dev/null & i=$((i+1)); done
    redis-benchmark -p 6379 "$@" ;;
  nginx) # four workers; / answers, /p asks a second server of theirs
    mkdir -p /var/log/nginx /var/lib/nginx; nginx -c /etc/app/nginx.conf; sleep 0.3
    exec wrk "$@" ;;
  memcached) # so many threads
    t=$1; shift; memcached -u root -t $t -d -m 64 -l 127.0.0.1; sleep 0.3
    exec memcaslap -s 127.0.0.1:11211 "$@" ;;
  go)
    goload -m srv & sleep 0.5
    exec goload -m cli "$@" ;;
esac
