# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by scripts that run MPI programs: how to ask Open MPI for ethmx and for each of its peers.

# ethmx_folder BUILD PREFIX: where mca_mtl_ethmx.so is, in a build tree or (if PREFIX is not empty) installed.
ethmx_folder() {
    if [ -n "$2" ]; then
        echo "$2/lib/openmpi"
    else
        echo "$1/ompi_mtl_ethmx/loadable"
    fi
}

# ompi_major: which Open MPI mpirun.openmpi is of, such as 4.
ompi_major() {
    mpirun.openmpi --version | sed -n 's/^.*(Open[^)]*) \([0-9]*\)\..*/\1/p'
}

# ompi_find_component FOLDER: fills the array ompi_found with arguments for mpirun that show Open MPI the components of
# FOLDER. SYS_DEFAULT first: Open MPI stops at the first folder that it cannot read. From 5 on the option is --omca: --mca
# would be PMIx's as well; and Debian's setting for PMIx would be Open MPI's as well, unless PMIx has it by an option.
ompi_find_component() {
    local pmix
    if [ "$(ompi_major)" = 4 ]; then
        ompi_found=(--mca mca_base_component_path "SYS_DEFAULT:$1")
        return
    fi
    ompi_found=(--omca mca_base_component_path "SYS_DEFAULT:$1")
    for pmix in /usr/lib/*/pmix2/lib/pmix; do
        [ ! -d "$pmix" ] || ompi_found+=(--pmixmca mca_base_component_path "$pmix")
    done
}

# shares DIR...: fills the array share with what ethmx-cluster must be told to keep these folders visible on the nodes.
shares() {
    local dir
    share=()
    for dir in "$@"; do
        case $dir in /tmp/* | /run/* | /dev/shm/*) share+=(--share "$dir") ;; esac
    done
}

# transport_settings NAME: fills the array transport_env with the variables of ethmx that NAME sets, as VARIABLE=VALUE.
transport_settings() {
    local wires settings
    transport_env=()
    IFS=: read -r _ wires settings <<<"$1"
    [ -z "$wires" ] || transport_env+=("ETHMX_WIRES=${wires//+/,}")
    while [ -n "$settings" ]; do
        transport_env+=("${settings%%:*}")
        case $settings in *:*) settings=${settings#*:} ;; *) settings='' ;; esac
    done
}

# provider_folder BUILD PREFIX: where libethmx-fi.so is, in a build tree or (if PREFIX is not empty) installed.
provider_folder() {
    if [ -n "$2" ]; then
        echo "$2/lib/libfabric"
    else
        echo "$1/libfabric_provider/.libs"
    fi
}

# mpich_settings NAME FOLDER: fills the array transport_env with the variables, as VARIABLE=VALUE, that an MPICH with both
# netmods needs for NAME, as for transport_args: ethmx..., ofi:ethmx (FOLDER is the provider's) or ofi.
mpich_settings() {
    case $1 in
    ofi:ethmx) transport_env=(MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=ethmx "FI_PROVIDER_PATH=$2") ;;
    ofi) transport_env=(MPIR_CVAR_CH4_NETMOD=ofi "FI_PROVIDER=tcp;ofi_rxm") ;;
    *) transport_settings "$1" ;;
    esac
}

# transport_args NAME FOLDER INTERFACE: fills the array transport_mca with arguments for mpirun. FOLDER is where
# mca_mtl_ethmx.so is (empty: where Open MPI finds it by itself); INTERFACE is what joins the nodes (empty: each transport
# chooses). NAME is one of
#   ofi:ethmx                                  mtl/ofi over ethmx's libfabric provider, whose folder FI_PROVIDER_PATH is
#   btl-ofi:PROVIDER                           messages by ob1 over TCP, windows by btl/ofi over this provider of libfabric
#   ethmx, ethmx:WIRES, ethmx:WIRES:SETTING... WIRES with + or commas between; a SETTING such as ETHMX_PROGRESS=thread
#   tcp, ucx, ofi                              ob1, UCX, mtl/ofi: all by TCP
#   tcp+sm, ucx+sm                             shared memory within a node, TCP between nodes
#   tcp:ALGORITHM                              ob1; congestion is controlled so if the nodes do (ethmx-cluster tcp)
#   bare:WHAT                                  as tcp: for a program that sends frames of its own
#   vader, ucx:sm                              within one node only: ob1 over vader, UCX over posix and cma
transport_args() {
    local name=$1 folder=$2 interface=$3 setting ompi_found=()
    case $name in
    ethmx | ethmx:*)
        if [ -n "$folder" ] && [ ! -e "$folder/mca_mtl_ethmx.so" ]; then
            echo "ethmx is not built: there is no $folder/mca_mtl_ethmx.so" >&2
            return 1
        fi
        [ -z "$folder" ] || ompi_find_component "$folder"
        transport_mca=("${ompi_found[@]}" --mca pml cm --mca mtl ethmx)
        transport_settings "$name"
        for setting in "${transport_env[@]}"; do transport_mca+=(-x "$setting"); done
        ;;
    tcp | tcp:* | bare:*) transport_mca=(--mca pml ob1 --mca btl "tcp,self" ${interface:+--mca btl_tcp_if_include "$interface"}) ;;
    tcp+sm) transport_mca=(--mca pml ob1 --mca btl "vader,tcp,self" ${interface:+--mca btl_tcp_if_include "$interface"}) ;;
    vader) transport_mca=(--mca pml ob1 --mca btl "vader,self") ;;
    ucx) transport_ucx "tcp,self" "$interface" ;;
    ucx+sm) transport_ucx "tcp,posix,cma,self" "$interface" ;;
    ucx:sm) transport_ucx "posix,cma,self" all ;;
    ofi)
        transport_mca=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "tcp;ofi_rxm"
            ${interface:+-x "FI_TCP_IFACE=$interface"})
        ;;
    ofi:ethmx)
        transport_mca=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ethmx -x FI_PROVIDER=ethmx
            ${FI_PROVIDER_PATH:+-x FI_PROVIDER_PATH})
        ;;
    btl-ofi:*)
        transport_mca=(--mca pml ob1 --mca btl "tcp,ofi,self" --mca btl_ofi_provider_include "${name#*:}" --mca osc rdma
            --mca osc_rdma_btls ofi -x "FI_PROVIDER=${name#*:}" ${interface:+--mca btl_tcp_if_include "$interface"}
            ${FI_PROVIDER_PATH:+-x FI_PROVIDER_PATH})
        ;;
    *)
        echo "unknown transport $name (ethmx, ethmx:WIRES, tcp, tcp+sm, vader, ucx, ucx+sm, ucx:sm, ofi, ofi:ethmx," \
            "btl-ofi:PROVIDER)" >&2
        return 1
        ;;
    esac
}

# transport_ucx TRANSPORTS DEVICE. Open MPI takes UCX only for devices that it knows, unless told "any".
transport_ucx() {
    transport_mca=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any
        -x "UCX_TLS=$1" -x "UCX_NET_DEVICES=${2:-all}" -x "UCX_LOG_LEVEL=error")
}
