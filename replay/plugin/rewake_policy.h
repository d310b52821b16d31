/* SPDX-License-Identifier: MIT */
/*
 * A placement policy of your own for rewake, as a shared object.
 *
 *   rewake policies new mine          writes mine/mine.c, which decides what linux-6.1 decides, and this header
 *   cc -std=c99 -O2 -shared -fPIC -o mine/mine.so mine/mine.c
 *   rewake replay TRACE --policy ./mine/mine.so
 *
 * The object exports one symbol, rewake_policy_v1(), which returns a struct rewake_policy: what the policy is, and five
 * functions. rewake asks decide() about every recorded wakeup, with the machine as it was immediately before it. The
 * policy sees neither what the kernel chose nor anything that happened later, and its own earlier choices do not change
 * the machine that it is shown. It can call the built-in steps of one policy that rewake has (its base), and it can
 * look at the machine through the functions of struct rewake_host.
 *
 * Calls come from one thread, never two at a time. Decisions, forks and idle entries come in the order of the recording.
 * The policy must depend on nothing but what it is told here: no clock, no random device, no files that change. Then the
 * same recording gives the same answers again.
 *
 * It runs in a process of its own: a crash, a call of exit(), a call that does not return, or an answer that is no CPU is
 * reported with the number of the decision, and no other policy's figures are touched. That process has your rights: it
 * protects from mistakes, not from malice. Its standard input is empty; what it prints goes to standard error.
 *
 * Units: times in ns on the recording's clock; loads as the kernel counts them, 1024 for one task of nice 0 that runs all
 * the time; capacities 1024 for the biggest CPU. CPUs are numbered as on the recorded machine. Tasks are numbered from 0
 * without gaps, in the recording's `task` table; the first n_cpus are the idle tasks. A mask is an array of
 * rewake_host.n_words words of 64 bits, CPU c being bit c % 64 of word c / 64. Pointers that rewake hands out point to
 * read-only memory; how long they hold is said with each. A CPU number that does not exist gives 0, NULL or -1.
 */
#ifndef REWAKE_POLICY_H
#define REWAKE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Structs only grow at their end, and their first member is their size. */
#define REWAKE_POLICY_ABI 1

/* decide(): this policy has no answer here. The decision stays empty in the ledger and counts nowhere. */
#define REWAKE_UNDECIDED (-1)

/* What is decided; bits of rewake_policy.kinds are 1 << kind. */
enum rewake_kind { REWAKE_WAKE = 0, REWAKE_FORK = 1, REWAKE_EXEC = 2 };

/* Stages of the base's steps, in the order in which a kernel comes to them; `rewake policies show BASE` lists the steps. */
enum rewake_stage {
    REWAKE_BOOK_IN = 0,   /* record_wakee, where the core calls it before the class (4.5) */
    REWAKE_ADMISSION = 1, /* one allowed CPU: the class is not asked */
    REWAKE_GATE = 2,      /* record_wakee, wake_wide: sets want_affine and the class's sync */
    REWAKE_WALK = 3,      /* domain walk: the affine level; target = prev */
    REWAKE_AFFINE = 4,    /* wake_affine: target = prev or waker's CPU */
    REWAKE_SLOW = 5,      /* idlest group, idlest CPU (forks, execs) */
    REWAKE_PROBE = 6,     /* select-idle-sibling: target, prev, per-CPU kthread, recent CPU */
    REWAKE_SCAN = 7,      /* select-idle-sibling: idle cores, siblings, CPUs of target's LLC */
    REWAKE_FALLBACK = 8,  /* nothing found: target */
    REWAKE_CHECK = 9      /* the core's check: a CPU that is not allowed or offline is replaced */
};

/* One decision under way. Valid until decide() returns. */
struct rewake_decision;

/* The wakeup itself. What is inferred or modelled in some recordings is not here but has a function below: rewake notes
 * which of these inputs a decision looked at, and the report says how many decisions rest on them. */
struct rewake_wakeup {
    uint32_t size;
    uint32_t kind;        /* enum rewake_kind */
    int64_t id;           /* decision_id in the recording: `rewake explain TRACE --decision ID` */
    int64_t now_ns;       /* when it was decided */
    uint32_t task;        /* the wakee */
    uint32_t waker_task;  /* what ran on the waker's CPU; not the cause of the wakeup when in_task is 0 */
    int32_t waker_cpu;    /* where the decision is made */
    int32_t prev_cpu;     /* where the wakee ran last */
    uint8_t in_task;      /* 0: woken from an interrupt */
    uint8_t waker_idle;   /* the waker's CPU ran its idle task */
    uint8_t waker_kthread;
    uint8_t waker_exiting;
};

/* One step of the base. */
struct rewake_step {
    uint32_t size;
    uint32_t stage;   /* enum rewake_stage */
    const char* text; /* as `rewake policies show` prints it; early exits begin with their number: "X4 ..." */
};

/* One scheduling domain of a CPU. */
struct rewake_domain {
    uint32_t size;
    int32_t imbalance_pct; /* as recorded */
    const char* name;      /* SMT, CLS, MC, PKG, NUMA, ...; as recorded */
    const uint64_t* span;
    uint8_t wake_affine, balance_wake, balance_fork, balance_exec, load_balance, share_llc, numa;
};

/*
 * What rewake offers to a policy. Check `size` before you call a function that a later version added.
 * Pointers and masks from functions that take a host hold as long as the policy; those from functions that take a decision
 * hold until decide() returns.
 */
struct rewake_host {
    uint32_t size;
    uint32_t abi;     /* REWAKE_POLICY_ABI of this rewake */
    const void* self; /* rewake's own */
    int32_t n_cpus;   /* highest possible CPU number + 1 */
    int32_t n_words;  /* words of a mask */
    uint64_t seed;    /* of `rewake replay --seed`, for policies that draw lots */

    /* The recorded machine. */
    const uint64_t* (*online_cpus)(const struct rewake_host*);
    const uint64_t* (*core_cpus)(const struct rewake_host*, int32_t cpu);    /* hardware threads of its core */
    const uint64_t* (*cluster_cpus)(const struct rewake_host*, int32_t cpu); /* NULL: it is in no cluster */
    const uint64_t* (*llc_cpus)(const struct rewake_host*, int32_t cpu);     /* that share its last-level cache */
    const uint64_t* (*node_cpus)(const struct rewake_host*, int32_t cpu);
    int32_t (*capacity_orig)(const struct rewake_host*, int32_t cpu);
    /* Fills `out` (set out->size first) with level `level` of the CPU's domains, 0 being the lowest. 0: no such level. */
    int (*domain)(const struct rewake_host*, int32_t cpu, int32_t level, struct rewake_domain* out);

    /* The wakeup. */
    const struct rewake_wakeup* (*wakeup)(struct rewake_decision*);
    const uint64_t* (*allowed)(struct rewake_decision*); /* CPUs that the wakee may use */
    int (*sync)(struct rewake_decision*);                /* WF_SYNC: the waker is about to sleep */
    int64_t (*task_load)(struct rewake_decision*);       /* of the wakee */
    int64_t (*waker_load)(struct rewake_decision*);      /* of the waker's task */

    /* The machine at the decision. */
    int (*idle)(struct rewake_decision*, int32_t cpu);   /* nothing runs or waits there, and nothing is on its way */
    int (*usable)(struct rewake_decision*, int32_t cpu); /* what the base takes for idle: from 5.4 on also a CPU that
                                                             has nothing but SCHED_IDLE tasks */
    int (*scan)(struct rewake_decision*, int32_t cpu); /* usable(), and counts as a CPU examined by an idle search */
    int32_t (*nr)(struct rewake_decision*, int32_t cpu); /* runnable tasks, the running one included */
    int64_t (*load)(struct rewake_decision*, int32_t cpu);
    int32_t (*capacity)(struct rewake_decision*, int32_t cpu); /* what interrupts and other classes leave */

    /* What kernels remember from earlier decisions. rewake keeps this state for the policy alone, from its own choices. */
    int32_t (*recent_cpu)(struct rewake_decision*); /* recent_used_cpu of the wakee; -1: not known yet */
    uint32_t (*flips)(struct rewake_decision*, uint32_t task); /* wakee_flips */
    int (*idle_cores)(struct rewake_decision*, int32_t cpu); /* has_idle_cores of the CPU's LLC */
    int32_t (*nr_idle_scan)(struct rewake_decision*, int32_t cpu); /* SIS_UTIL's bound in the CPU's LLC */

    /* The base's steps. run() runs the steps of one stage, run_step() a single one (0 being the first of this kind of
     * decision; step() tells them). 1: a step has decided, chosen() says what. 0: nothing decided yet. -1: what the
     * step reads is not known here, or there is no such step. */
    int (*run)(struct rewake_decision*, uint32_t stage);
    int (*run_step)(struct rewake_decision*, int32_t index);
    /* Fills `out` (set out->size first). 0: no such step. The text holds as long as the policy. */
    int (*step)(struct rewake_decision*, int32_t index, struct rewake_step* out);
    int32_t (*chosen)(struct rewake_decision*); /* by the last step that decided, or by pick(); -1: nothing yet */
    /* Chooses `cpu` and returns 1, as a step that decides does. `branch` is an index into rewake_policy.branches and
     * names the rule in reports; -1: none. */
    int (*pick)(struct rewake_decision*, int32_t cpu, int32_t branch);

    /* What the stages hand to each other. */
    int32_t (*target)(struct rewake_decision*); /* `new_cpu`: where select-idle-sibling starts; prev at first */
    void (*set_target)(struct rewake_decision*, int32_t cpu);
    int (*want_affine)(struct rewake_decision*);
    void (*set_want_affine)(struct rewake_decision*, int value);

    /* Parts of the base by themselves. */
    int (*wake_wide)(struct rewake_decision*); /* of 3.12 and later, by the flips of waker and wakee */
    int32_t (*wake_affine)(struct rewake_decision*); /* waker's CPU or prev; -1: no domain holds both */
    int32_t (*idlest_cpu)(struct rewake_decision*, const uint64_t* group); /* -1: not known, or none is allowed */
};

/* A parameter: `--policy ./mine.so:key=value`. */
struct rewake_param {
    const char* name; /* letters, digits, _ . + - */
    const char* default_value; /* as text */
    const char* meaning; /* one line */
};

/* What rewake_policy_v1() returns: one object that lives as long as the program. Texts are UTF-8, one line each, at most
 * 200 bytes. */
struct rewake_policy {
    uint32_t abi_size; /* sizeof(struct rewake_policy) */
    uint32_t abi_version; /* REWAKE_POLICY_ABI */
    const char* name;
    const char* version; /* of this policy; may be NULL */
    const char* summary; /* what it does */
    const char* source; /* who wrote it, or where it is described; may be NULL */
    const char* base; /* policy whose steps, idle rule and load it uses: NAME[:key=value,...], as --policy takes it */
    uint32_t kinds; /* what it decides: 1 << REWAKE_WAKE, ...; nothing else reaches decide() */
    const struct rewake_param* params; /* ends with a NULL name; NULL: none */
    const char* const* branches; /* names of its own rules, at most 32, ends with NULL; NULL: none */

    /* Makes a policy for one machine. `values` has the value of each parameter, in the order of `params`; they hold until
     * destroy(). NULL refuses: say why in `error`. The function itself may be NULL: then `self` is NULL everywhere. */
    void* (*create)(const struct rewake_host*, const char* const* values, char* error, size_t error_size);
    /* The CPU for this task: one that is allowed and online, or REWAKE_UNDECIDED. */
    int32_t (*decide)(void* self, const struct rewake_host*, struct rewake_decision*);
    /* `parent` forked `child` on `cpu`. The base's own state is inherited already. May be NULL. */
    void (*on_fork)(void* self, uint32_t parent, uint32_t child, int32_t cpu);
    /* `cpu` entered idle; `core_idle`: so are all other threads of its core. The base's own state knows. May be NULL. */
    void (*on_cpu_idle)(void* self, int32_t cpu, int core_idle);
    /* May be NULL. */
    void (*destroy)(void* self);
};

/* The one symbol that a policy exports. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct rewake_policy* rewake_policy_v1(void);

/* Whether `cpu` is in `mask`. */
static inline int rewake_test(const uint64_t* mask, int32_t cpu) { return (int)(mask[cpu / 64] >> (cpu % 64) & 1); }

/* select-idle-sibling of the base from `target`: the CPU that it chooses. */
static inline int32_t rewake_select_idle_sibling(const struct rewake_host* host, struct rewake_decision* d,
                                                 int32_t target) {
    uint32_t stage;
    host->set_target(d, target);
    for (stage = REWAKE_PROBE; stage <= REWAKE_FALLBACK; ++stage)
        if (host->run(d, stage) > 0) break;
    return host->chosen(d);
}

#ifdef __cplusplus
}
#endif

#endif
