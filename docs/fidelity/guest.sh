# SPDX-License-Identifier: GPL-2.0-or-later
# Guest side of docs/fidelity/jobs, sourced by `pre=. /guest.sh`; the job line then calls one of the functions.
C=/tmp/cg

# partition CPUS: an exclusive cpuset partition of CPUS, which takes them from everybody else and rebuilds the domains.
partition() {
  mkdir -p $C; mount -t cgroup2 none $C; echo +cpuset > $C/cgroup.subtree_control; mkdir $C/part
  echo "$1" > $C/part/cpuset.cpus; echo root > $C/part/cpuset.cpus.partition
  echo "partition $(cat $C/part/cpuset.cpus.effective) $(cat $C/part/cpuset.cpus.partition)"
  sleep 0.2; }

# within GROUP COMMAND...: run it in that group.
within() { g=$1; shift; sh -c "echo \$\$ > $C/$g/cgroup.procs; exec $*"; }

# inside COMMAND...: run it in the partition.
inside() { within part "$@"; }

# The service has the partition, another one the rest of the machine.
partmix() {
  inside schbench -m 1 -t 5 -F 64 -n 1 -s 1000 -r 2 & S=$!
  schbench -m 1 -t 8 -F 64 -n 1 -s 1000 -r 2; wait $S; }

# pinall NAME CPUS: sched_setaffinity of every thread of every process called NAME.
pinall() { for p in $(busybox pidof "$1"); do taskset -a -p -c "$2" "$p"; done; }

# While the load runs, all its threads go to CPUs 0-5, to 6-13, then everywhere but the isolated CPUs; beside it a load
# on one of those.
movemix() {
  ( sleep 0.8; pinall schbench 0-5; sleep 0.25; pinall schbench 6-13
    sleep 0.25; pinall schbench 0-13 ) > /tmp/out/affinity.txt 2>&1 &
  taskset -c 14 hackbench -g 1 -f 2 -l 4000 -s 100 > /dev/null & H=$!
  schbench -m 2 -t 7 -F 64 -n 1 -s 1000 -r 2; kill $H 2> /dev/null; }

# While the load runs, CPU 5 goes offline and comes back.
hotplug() {
  ( sleep 0.75; echo 0 > /sys/devices/system/cpu/cpu5/online
    sleep 0.35; echo 1 > /sys/devices/system/cpu/cpu5/online ) &
  schbench -m 2 -t 9 -F 64 -n 1 -s 1000 -r 2; }

# FIFO tasks beside a load of the fair class on a machine whose first LLC takes disk and network interrupts.
fifomix() {
  cyclictest -q -t 3 -a 1,2,3 -p 80 -i 1500 -l 100000 -D 4 > /dev/null & R=$!
  chrt -f 20 hackbench -g 1 -f 2 -l 3000 -s 100 > /dev/null & H=$!
  schbench -m 1 -t 12 -F 64 -n 1 -s 1500 -r 2; kill $R $H 2> /dev/null; }

# quiet: the shell that starts the workload, whose wakee_flips all its children inherit, wakes one reader once a second
# until they are halved to nothing; begin COMMAND...: the workload starts a second after the recording, all its tasks in it.
quiet() {
  busybox mkfifo /tmp/quiet; cat /tmp/quiet > /dev/null & exec 9> /tmp/quiet
  for i in 1 2 3 4 5 6 7 8 9; do echo $i >&9; sleep 1.1; done; exec 9>&-; }
begin() { sleep 1.2; wl_start "$@"; }

# tight: the snapshots' counters are read last before the recording starts and first after it ends.
tight() { snapshot_light() {
  case $1 in */before) rest_of "$1"; esac
  snap "$1" /proc/schedstat /proc/stat /proc/uptime
  case $1 in */after) rest_of "$1"; esac; }; }
rest_of() { snap "$1" /proc/interrupts /proc/softirqs /proc/loadavg; snap -t "$1/threads"; }

# The mix of the lab's cgroups.sh, for as long as a recording of several seconds takes.
cglong() {
  in_cg batch stress-ng -q --cpu 6 --cpu-load 90 -t 8 & B=$!
  in_cg service/cache hackbench -g 1 -l 100000 -s 100 > /dev/null & H=$!
  ( sleep 0.8; cg_save ) &
  in_cg service/web schbench -m 2 -t 8 -F 64 -n 1 -s 4000 -r 7; kill $H $B 2> /dev/null; }

# weigh: nested groups that share the machine by weight, and one beside them for short processes; none has a limit.
weigh() {
  mkdir -p $C; mount -t cgroup2 none $C; echo +cpu > $C/cgroup.subtree_control; mkdir $C/service $C/batch $C/plain
  echo +cpu > $C/service/cgroup.subtree_control; mkdir $C/service/web $C/service/cache
  echo 300 > $C/service/cpu.weight; echo 400 > $C/service/web/cpu.weight; echo 100 > $C/service/cache/cpu.weight
  echo 50 > $C/batch/cpu.weight; }

# members: who is in which group now, beside the snapshot.
members() {
  for f in $(find $C -name 'cpu.*' -o -name 'cgroup.threads' -o -name 'cgroup.procs'); do
    d=/tmp/out/topology/sys/fs/cgroup${f#$C}; mkdir -p ${d%/*}; cat $f > $d 2> /dev/null
  done; }

# Two services and a batch job, all at once.
weightmix() {
  within batch stress-ng -q --cpu 4 --cpu-load 60 -t 3 & B=$!
  within service/cache hackbench -g 1 -l 4000 -s 100 > /dev/null & H=$!
  ( sleep 0.8; members ) &
  within service/web schbench -m 2 -t ${1:-5} -F 64 -n 1 -s 1000 -r 2; kill $H $B 2> /dev/null; }

# Short processes in a group of their own.
groupbuild() { ( sleep 0.6; members ) & within plain sh /build.sh $1 4; }
