# SPDX-License-Identifier: GPL-2.0-or-later
# Guest side, in place of the lab's probes.sh: the same fields on its arm64 kernel, whose tracefs (6.1) knows no argument
# by name. By argument registers and the offsets in the BTF of that build, 6.1.0-50-cloud-arm64: another one has others.
# task_struct: pid 1352, recent_used_cpu 96, wakee_flips 72, se.avg.util_avg 368, se.avg.load_avg 352, nr_cpus_allowed 976,
# se.cfs_rq 248; cfs_rq: rq 304, avg.load_avg 160; rq: nr_running 4, sd 2568; sched_domain: shared 296, of which
# has_idle_cores 8, nr_idle_scan 12.
D=/sys/kernel/tracing
RQ='+304(+248(%x0))'; LLC="+296(+2568($RQ))"
echo "p:rewake/select_in select_task_rq_fair pid=+1352(%x0):s32 prev=%x1:s32 flags=%x2:s32 recent=+96(%x0):s32 flips=+72(%x0):u32 util=+368(%x0):u64 load=+352(%x0):u64 nallowed=+976(%x0):s32 nis=+12($LLC):s32 hic=+8($LLC):s32 qload=+160(+248(%x0)):u64 qnr=+4($RQ):u32" >> $D/dynamic_events || echo "probe in failed"
echo 'r:rewake/select_out select_task_rq_fair cpu=$retval:s32' >> $D/dynamic_events || echo "probe out failed"
cat $D/dynamic_events; tail -5 $D/error_log
EV="$EV -e rewake:select_in -e rewake:select_out"
