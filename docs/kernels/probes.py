# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes, for a kernel whose tracefs knows no argument by name, what the lab's probes.sh has: the same fields by
position and by the offsets in the BTF of that very build.

    python docs/kernels/probes.py VMLINUX > probes.sh      # VMLINUX: uncompressed; asks pahole

Until 5.10 wake flags are numbered otherwise, and not fetched. `avg_idle` and `scan_cost` (until 5.18) are of the
previous CPU, what SIS_PROP goes by there; nr_idle_scan is where the kernel has it.
"""

from __future__ import annotations

import re
import subprocess
import sys

_MEMBER = re.compile(r"(\w+)(?: __attribute__\(\(.*?\)\))?;\s+/\*\s+(\d+)")


def members(vmlinux: str, struct: str) -> dict[str, int]:
    """Offsets, in bytes; of two of a name (a member of a member) the first."""
    text = subprocess.run(
        ["pahole", "-F", "btf", "-C", struct, vmlinux], capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, int] = {}
    for name, offset in _MEMBER.findall(text):
        found.setdefault(name, int(offset))
    return found


def script(vmlinux: str) -> str:
    task, entity = members(vmlinux, "task_struct"), members(vmlinux, "sched_entity")
    queue, rq = members(vmlinux, "cfs_rq"), members(vmlinux, "rq")
    domain, shared = members(vmlinux, "sched_domain"), members(vmlinux, "sched_domain_shared")
    average = members(vmlinux, "sched_avg")
    own = task["se"] + entity["avg"]
    cfs = f"+{task['se'] + entity['cfs_rq']}(\\$arg1)"
    on = f"+{queue['rq']}({cfs})"
    fields = [
        f"pid=+{task['pid']}(\\$arg1):s32", "prev=\\$arg2:s32", f"recent=+{task['recent_used_cpu']}(\\$arg1):s32",
        f"flips=+{task['wakee_flips']}(\\$arg1):u32", f"util=+{own + average['util_avg']}(\\$arg1):u64",
        f"load=+{own + average['load_avg']}(\\$arg1):u64", f"nallowed=+{task['nr_cpus_allowed']}(\\$arg1):s32",
        f"hic=+{shared['has_idle_cores']}($LLC):s32", f"qload=+{queue['avg'] + average['load_avg']}({cfs}):u64",
        f"qnr=+{rq['nr_running']}({on}):u32",
    ]  # fmt: skip
    if "__state" in task:  # 5.14; flags are numbered so from 5.11 on
        fields.append("flags=\\$arg3:s32")
    if "nr_idle_scan" in shared:
        fields.append(f"nis=+{shared['nr_idle_scan']}($LLC):s32")
    if "avg_scan_cost" in domain:
        fields += [f"avg_idle=+{rq['avg_idle']}({on}):u64", f"scan_cost=+{domain['avg_scan_cost']}($SD):u64"]
    return f"""# made by docs/kernels/probes.py for one build
D=/sys/kernel/debug/tracing; [ -d /sys/kernel/tracing/events ] && D=/sys/kernel/tracing
SD='+{rq["sd"]}({on.replace(chr(92), "")})'
[ "$(cat /sys/devices/system/cpu/smt/active 2>/dev/null)" = 1 ] && SD="+{domain["parent"]}($SD)"
LLC="+{domain["shared"]}($SD)"
echo "p:rewake/select_in select_task_rq_fair {" ".join(fields)}" >> $D/kprobe_events || echo "probe in failed"
echo 'r:rewake/select_out select_task_rq_fair cpu=$retval:s32' >> $D/kprobe_events || echo "probe out failed"
cat $D/kprobe_events; tail -5 $D/error_log
EV="$EV -e rewake:select_in -e rewake:select_out"
"""


if __name__ == "__main__":
    print(script(sys.argv[1]), end="")
