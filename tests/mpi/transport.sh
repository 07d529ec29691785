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

# transport_args NAME FOLDER INTERFACE: fills the array transport_mca with arguments for mpirun. NAME is ethmx,
# ethmx:WIRES, tcp, ucx or ofi; FOLDER is where mca_mtl_ethmx.so is; INTERFACE is what joins the nodes.
transport_args() {
    local name=$1 folder=$2 interface=$3
    case $name in
    ethmx | ethmx:*)
        if [ ! -e "$folder/mca_mtl_ethmx.so" ]; then
            echo "ethmx is not built: there is no $folder/mca_mtl_ethmx.so" >&2
            return 1
        fi
        # SYS_DEFAULT first: Open MPI stops at the first folder that it cannot read.
        transport_mca=(--mca mca_base_component_path "SYS_DEFAULT:$folder" --mca pml cm --mca mtl ethmx)
        case $name in ethmx:*) transport_mca+=(-x "ETHMX_WIRES=${name#ethmx:}") ;; esac
        ;;
    tcp) transport_mca=(--mca pml ob1 --mca btl "tcp,self" --mca btl_tcp_if_include "$interface") ;;
    ucx)
        transport_mca=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any
            -x "UCX_TLS=tcp,self" -x "UCX_NET_DEVICES=$interface" -x "UCX_LOG_LEVEL=error")
        ;;
    ofi)
        transport_mca=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "tcp;ofi_rxm"
            -x "FI_TCP_IFACE=$interface")
        ;;
    *)
        echo "unknown transport $name (ethmx, ethmx:WIRES, tcp, ucx, ofi)" >&2
        return 1
        ;;
    esac
}
