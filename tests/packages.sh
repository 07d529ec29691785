# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
#
# Sourced by scripts that install what they need: Debian packages, by purpose.

packages_build=(gcc make autoconf automake libtool pkg-config libc6-dev libmnl-dev libxdp-dev libbpf-dev libibverbs-dev librdmacm-dev libsodium-dev
    libopenmpi-dev openmpi-bin libfabric-dev)
packages_cluster=(iproute2 iputils-ping ethtool procps util-linux bc clang libbpf-dev linux-libc-dev bpftool)
packages_bench=(python3 gnuplot-nox)
packages_apps=(python3 gnuplot-nox lammps hpcc)
packages_check=(libcmocka-dev clang libclang-rt-14-dev clang-format cppcheck shellcheck binutils jq python3 tcpdump
    valgrind mandoc man-db groff-base zsh)
packages_wireshark=(tshark tcpdump python3)

# tests/libfabric/run-fabtests: fabtests is in libfabric's source.
packages_fabtests=(dpkg-dev gcc make autoconf automake libtool libfabric-dev libfabric-bin python3)

# tests/mpi/run-mpich-suite: MPICH's tests for Open MPI. run-mpi4py: mpi4py's.
packages_suite=(dpkg-dev gcc make libc6-dev perl openmpi-bin libopenmpi-dev)
packages_mpi4py=(dpkg-dev python3-mpi4py)

packages_mpich=(dpkg-dev gcc make autoconf automake libtool pkg-config libc6-dev libhwloc-dev python3 perl)
# What Debian's libfabric.pc makes a program link that uses it.
packages_mpich_ofi=(libfabric-dev librdmacm-dev libpsm-infinipath1-dev libpsm2-dev libnuma-dev)

# tests/guest: what it takes to set the guest up, to be installed; and what is only fetched and unpacked: QEMU, and what the
# guest has besides this machine's own files and the kernel.
packages_guest=(gcc make libc6-dev xz-utils zstd iproute2)
packages_guest_qemu=(qemu-system-x86)
packages_guest_inside=(busybox-static kmod ibverbs-utils rdmacm-utils perftest qperf nftables ethtool)

# tests/roots: what makes a root of another suite of Debian. tests/roots/roots.sh has the names that differ there.
packages_roots=(mmdebstrap)

# Debian's own MPICH, whose programs are tried on ours; what hpcc is built with.
packages_mpich_check=(mpich libmpich-dev libblas-dev)

# tests/mpich/run-apps: what hpcc and LAMMPS are built with.
packages_mpich_apps=(dpkg-dev gcc g++ make libc6-dev libblas-dev)

# tests/slurm: Slurm, whose daemons do not start without a configuration, and munge; libpmix2 is for srun --mpi=pmix.
packages_slurm=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libpmix2 libpam-cap libcap2-bin openmpi-bin)

# tests/containers: what runs containers, and what a root for them has: all that an ethmx of the same suite needs to run.
packages_containers=(podman crun uidmap charliecloud-runtime mmdebstrap debian-archive-keyring libcap2-bin openmpi-bin)
packages_container_root=(openmpi-bin libmnl0 libxdp1 libbpf1 libibverbs1 librdmacm1 libsodium23 iproute2 procps util-linux)

# packaging/test-deb: what builds the packages and checks them, in a root; what an empty root has besides Debian's essential
# packages.
packages_deb=(build-essential debhelper lintian libcmocka-dev iproute2)
packages_deb_empty=()

# tests/check-release compares the library with its baseline.
packages_release=(abigail-tools)

# packages_install NAME...: installs those that are missing, with apt-get, and says so. Needs root only then. Waits while
# others install packages.
packages_install() {
    local name missing=()
    if ! command -v dpkg-query >/dev/null; then
        echo "This is no Debian: make sure that these are installed in some form: $*"
        return 0
    fi
    for name in "$@"; do
        # shellcheck disable=SC2016
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
    done
    if [ ${#missing[@]} = 0 ]; then
        echo "All packages are there."
        return 0
    fi
    echo "Installing ${missing[*]}"
    if [ "$(id -u)" != 0 ]; then
        echo "This needs root. As root: apt-get install ${missing[*]}" >&2
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update >/dev/null </dev/null || echo "apt-get update failed; trying with what is known" >&2
    apt-get -q -y -o DPkg::Lock::Timeout=600 --no-install-recommends install "${missing[@]}" >/dev/null </dev/null ||
        { echo "apt-get install ${missing[*]} failed" >&2 && return 1; }
}
