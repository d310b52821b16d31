# SPDX-License-Identifier: GPL-2.0-or-later
# /build.sh of docs/fidelity/jobs: N workers, each one short job after the other, for so many seconds; processes in pipelines,
# as make -j N has them.
up() { cut -d. -f1 /proc/uptime; }
end=$(( $(up) + $2 ))
worker() {
  i=0
  while [ $(up) -lt $end ]; do
    i=$((i+1)); s=$(( 40000 + ($1 * 7 + i) % 9 * 15000 ))
    sh -c "head -c $s /bin/busybox | gzip -c | md5sum > /dev/null"
    head -c $((s/4)) /bin/busybox | od -x | sort | uniq | wc -l > /dev/null
  done
}
w=0; while [ $w -lt $1 ]; do worker $w & w=$((w+1)); done
wait
