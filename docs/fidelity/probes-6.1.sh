# SPDX-License-Identifier: GPL-2.0-or-later
# Guest side, in place of the lab's probes.sh: the same fields on the lab's 6.1 kernels, whose tracefs knows no argument
# by name. By position and by the offsets in the BTF of those builds, 6.1.0-50-cloud-{amd64,arm64}: others have others.
# Both have task_struct: recent_used_cpu 96, wakee_flips 72, se.avg.util_avg 368, se.avg.load_avg 352, nr_cpus_allowed
# 976, se.cfs_rq 248; cfs_rq: rq 304, avg.load_avg 160; rq: nr_running 4, sd 2568; sched_domain: parent 0, shared 296,
# of which has_idle_cores 8, nr_idle_scan 12. With SMT the LLC's domain is the parent of the lowest one.
D=/sys/kernel/tracing
case $(uname -m) in x86_64) PID=2416;; aarch64) PID=1352;; esac # of task_struct
RQ='+304(+248($arg1))'; SD="+2568($RQ)"
[ "$(cat /sys/devices/system/cpu/smt/active 2>/dev/null)" = 1 ] && SD="+0($SD)"
LLC="+296($SD)"
echo "p:rewake/select_in select_task_rq_fair pid=+$PID(\$arg1):s32 prev=\$arg2:s32 flags=\$arg3:s32 recent=+96(\$arg1):s32 flips=+72(\$arg1):u32 util=+368(\$arg1):u64 load=+352(\$arg1):u64 nallowed=+976(\$arg1):s32 nis=+12($LLC):s32 hic=+8($LLC):s32 qload=+160(+248(\$arg1)):u64 qnr=+4($RQ):u32" >> $D/dynamic_events || echo "probe in failed"
echo 'r:rewake/select_out select_task_rq_fair cpu=$retval:s32' >> $D/dynamic_events || echo "probe out failed"
cat $D/dynamic_events; tail -5 $D/error_log
EV="$EV -e rewake:select_in -e rewake:select_out"
