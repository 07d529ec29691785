# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by test-slurm: Slurm on the virtual cluster that EMX_CLUSTER names, without systemd and cgroups.
#
#   n1    munged, slurmctld, slurmd; srun, sbatch and scancel are called here
#   nI    munged, slurmd
#
# The key of munge, the sockets and the configuration are not this machine's own. They are in $slurm_dir, a folder that
# all nodes see, and on the nodes' own /run. The daemons are processes of the nodes and end with the cluster at the latest.
#
# The caller defines $cluster (the path of ethmx-cluster), "fail WORDS" and "await WHAT COMMAND...".

slurm_nodes=() slurm_dir=''

# slurm_on [--user USER] NODE COMMAND...: with this Slurm's configuration
slurm_on() { SLURM_CONF=$slurm_dir/slurm.conf "$cluster" exec "$@"; }

slurm_join() {
    local IFS=,
    echo "$*"
}

# config_overrides: the nodes may have more CPUs than this machine. CgroupPlugin: unused, but slurmd searches for cgroups
# unless it is told which.
slurm_write_config() {
    cat >"$slurm_dir/slurm.conf" <<END
ClusterName=ethmx
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=/run/munge.socket
StateSaveLocation=$slurm_dir/state
SlurmdSpoolDir=$slurm_dir/spool-%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$slurm_dir/slurmctld.log
SlurmdLogFile=$slurm_dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SwitchType=switch/none
MpiDefault=none
UsePAM=1
KillWait=2
SlurmdParameters=config_overrides
NodeName=$(slurm_join "${slurm_nodes[@]}") CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
    echo CgroupPlugin=cgroup/v1 >"$slurm_dir/cgroup.conf"
}

# What slurmd asks PAM for each step (UsePAM=1), by which pam_cap gives users of the list an inheritable CAP_NET_RAW.
# pam_cap ignores all others, and a stack in which nobody answers refuses: therefore pam_permit.
slurm_write_pam() {
    mkdir -p "$slurm_dir/pam.d"
    echo "cap_net_raw $1" >"$slurm_dir/capability.conf"
    cat >"$slurm_dir/pam.d/slurm" <<END
auth optional pam_cap.so config=$slurm_dir/capability.conf
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
END
}

# slurm_daemon NODE COMMAND...: in the foreground, as a process of the node. What it prints goes to COMMAND-NODE.out.
slurm_daemon() {
    slurm_on "$@" </dev/null >"$slurm_dir/$2-$1.out" 2>&1 &
}

slurm_munge_answers() { slurm_on "$1" munge --socket=/run/munge.socket --no-input >/dev/null 2>&1; }

# slurm_node_is NODE STATE: STATE as sinfo's %T, such as idle
slurm_node_is() { [ "$(slurm_on n1 sinfo --noheader --nodes="$1" --format=%T 2>/dev/null)" = "$2" ]; }

# slurm_start USER: returns when all nodes are idle. pam_cap gives USER's steps the capability.
slurm_start() {
    local node
    mapfile -t slurm_nodes < <("$cluster" hosts)
    mkdir -p "$slurm_dir/state" "${slurm_nodes[@]/#/$slurm_dir/spool-}"
    chmod 755 "$slurm_dir"
    slurm_write_config
    slurm_write_pam "$1"
    (umask 077 && head -c 1024 /dev/urandom >"$slurm_dir/munge.key")
    for node in "${slurm_nodes[@]}"; do
        slurm_on "$node" mount --bind "$slurm_dir/pam.d" /etc/pam.d
        slurm_daemon "$node" munged --foreground --force --key-file="$slurm_dir/munge.key" --socket=/run/munge.socket \
            --pid-file=/run/munged.pid --seed-file=/run/munge.seed
    done
    for node in "${slurm_nodes[@]}"; do await "munged on $node" slurm_munge_answers "$node"; done
    slurm_daemon n1 slurmctld -D
    for node in "${slurm_nodes[@]}"; do slurm_daemon "$node" slurmd -D -N "$node"; done
    for node in "${slurm_nodes[@]}"; do await "slurmd on $node" slurm_node_is "$node" idle; done
}

# Ends the daemons and waits for them: Slurm's, which need munge, before munge's.
slurm_stop() {
    local node
    slurm_on n1 scontrol shutdown
    for node in "${slurm_nodes[@]}"; do await "the end of Slurm on $node" slurm_ended "$node"; done
    for node in "${slurm_nodes[@]}"; do slurm_on "$node" pkill -x munged; done
    wait
}

slurm_ended() { ! slurm_runs "$1" slurmctld slurmd slurmstepd; }

# slurm_runs NODE NAME...: whether a process of one of these names is on the node. (One that has ended may be a zombie for
# a moment, and counts.)
slurm_runs() {
    local node=$1
    shift
    slurm_on "$node" ps -eo comm= | grep -x "$(printf '%s\n' "$@")" >/dev/null
}
