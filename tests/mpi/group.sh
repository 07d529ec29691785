# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by scripts that run many ranks on few processors: a share of the processors for all of them.
#
# Each rank is a session of its own, and where the kernel makes a group of the scheduler of each session (autogroups), a
# rank that yields gives way to nobody: a message waits for whole slices of whatever else runs on this machine. In one
# group ranks share their processors as on nodes of their own. The group weighs as four sessions.

# Puts this process, and all that it starts, into a group that goes when it ends.
group_join() {
    local root
    for root in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
        group=$root/ethmx-suite.$$
        mkdir "$group" 2>/dev/null || continue
        if group_weigh && echo "$$" >"$group/cgroup.procs"; then
            trap group_leave EXIT
            return
        fi
        rmdir "$group"
    done
    echo "no group of the scheduler to be had: ranks share the processors with all that runs"
}

group_weigh() {
    if [ -e "$group/cpu.shares" ]; then echo 4096 >"$group/cpu.shares"; else echo 400 >"$group/cpu.weight"; fi 2>/dev/null
}

# What was on the cluster may need a moment to be gone.
group_leave() {
    echo "$$" >"${group%/*}/cgroup.procs"
    rmdir "$group" 2>/dev/null || { sleep 1 && rmdir "$group"; }
}
