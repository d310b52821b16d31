// SPDX-License-Identifier: GPL-2.0-or-later
// Loads of the postings that neither the lab nor a benchmark suite has.
// Build: gcc -O2 -static -pthread -o seedload seedload.c
//   seedload irq CPU TIMERS SECONDS        interrupts without a task: TIMERS one-tick timers on CPU whose signal is
//                                          ignored, so that the kernel re-arms them in the timer interrupt
//   seedload barrier THREADS LOOPS SECONDS a loop of LOOPS rounds and a barrier, as barrier.c of the interrupt posting
//   seedload clients N LOOPS SECONDS       pgbench's shape: one process waits for N connections, each with a backend
//                                          process that works LOOPS rounds for every request
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 4000000, PHASES = 4, MAX = 256 };  // CONFIG_HZ=250

static double end;
static long loops;
static long done[MAX];
static pthread_barrier_t barrier;
static atomic_int stop;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void work(void) {
    for (volatile long i = 0; i < loops; i++) {
    }
}

static void fail(const char* what) {
    fprintf(stderr, "seedload: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void irq(int cpu, int timers, double seconds) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only)) fail("sched_setaffinity");  // a timer stays where it was armed
    signal(SIGUSR1, SIG_IGN);
    struct timespec first;
    clock_gettime(CLOCK_MONOTONIC, &first);
    for (int i = 0; i < timers; i++) {  // of one phase all at the same instant: one interrupt, and a small recording
        timer_t id;
        struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec every = {.it_interval.tv_nsec = TICK_NS,
                                   .it_value = {first.tv_sec + 1, i % PHASES * (TICK_NS / PHASES)}};
        if (timer_create(CLOCK_MONOTONIC, &e, &id) || timer_settime(id, TIMER_ABSTIME, &every, NULL)) fail("timer");
    }
    usleep((useconds_t)(seconds * 1e6));
}

static void* round_robin(void* arg) {
    for (long me = (long)arg;; done[me]++) {
        work();
        if (me == 0 && now() > end) stop = 1;
        pthread_barrier_wait(&barrier);
        if (stop) return NULL;
        pthread_barrier_wait(&barrier);  // nobody sets stop while another looks at it
    }
}

static void barriers(int threads) {
    pthread_t t[MAX];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&t[i], NULL, round_robin, (void*)i)) fail("pthread_create");
    for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
}

static void clients(int n) {
    struct pollfd fds[MAX];
    char c = 0;
    for (int i = 0; i < n; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) fail("socketpair");
        const pid_t child = fork();
        if (child < 0) fail("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, "backend");
            for (;;) {
                if (read(pair[1], &c, 1) != 1) _exit(0);
                work();
                if (write(pair[1], &c, 1) != 1) _exit(0);
            }
        }
        close(pair[1]);
        fds[i] = (struct pollfd){.fd = pair[0], .events = POLLIN};
        if (write(pair[0], &c, 1) != 1) fail("write");
    }
    while (now() < end) {
        if (poll(fds, (nfds_t)n, 1000) < 0) fail("poll");
        for (int i = 0; i < n; i++)
            if (fds[i].revents & POLLIN) {
                if (read(fds[i].fd, &c, 1) != 1 || write(fds[i].fd, &c, 1) != 1) fail("connection");
                done[0]++;
            }
    }
}

int main(int argc, char** argv) {
    if (argc != 5 || atoi(argv[2]) < 0 || atoi(argv[2]) > MAX) {
        fprintf(stderr, "usage: seedload irq CPU TIMERS SECONDS | barrier|clients N LOOPS SECONDS\n");
        return 2;
    }
    const int n = atoi(argv[2]);
    const double seconds = atof(argv[4]);
    end = now() + seconds;
    loops = atol(argv[3]);
    if (!strcmp(argv[1], "irq"))
        irq(n, (int)loops, seconds);
    else if (!strcmp(argv[1], "barrier"))
        barriers(n);
    else
        clients(n);
    printf("seedload %s %d: %ld rounds, %.1f/s\n", argv[1], n, done[0], (double)done[0] / seconds);
    return 0;
}
