## SPDX-License-Identifier: BSD-3-Clause
##
## Part of MPICH's own Makefile.am, by an include line in src/mpid/ch4/netmod/Makefile.mk.

if BUILD_CH4_NETMOD_ETHMX

noinst_HEADERS += \
    src/mpid/ch4/netmod/ethmx/ethmx_am.h \
    src/mpid/ch4/netmod/ethmx/ethmx_data.h \
    src/mpid/ch4/netmod/ethmx/ethmx_done.h \
    src/mpid/ch4/netmod/ethmx/ethmx_impl.h \
    src/mpid/ch4/netmod/ethmx/ethmx_lib.h \
    src/mpid/ch4/netmod/ethmx/ethmx_noinline.h \
    src/mpid/ch4/netmod/ethmx/ethmx_onesided.h \
    src/mpid/ch4/netmod/ethmx/ethmx_pre.h \
    src/mpid/ch4/netmod/ethmx/ethmx_probe.h \
    src/mpid/ch4/netmod/ethmx/ethmx_proc.h \
    src/mpid/ch4/netmod/ethmx/ethmx_recv.h \
    src/mpid/ch4/netmod/ethmx/ethmx_send.h \
    src/mpid/ch4/netmod/ethmx/ethmx_sync.h \
    src/mpid/ch4/netmod/ethmx/ethmx_window.h \
    src/mpid/ch4/netmod/ethmx/netmod_inline.h

mpi_core_sources += \
    src/mpid/ch4/netmod/ethmx/ethmx_address.c \
    src/mpid/ch4/netmod/ethmx/ethmx_am.c \
    src/mpid/ch4/netmod/ethmx/ethmx_atomic.c \
    src/mpid/ch4/netmod/ethmx/ethmx_comm.c \
    src/mpid/ch4/netmod/ethmx/ethmx_data.c \
    src/mpid/ch4/netmod/ethmx/ethmx_dynamic.c \
    src/mpid/ch4/netmod/ethmx/ethmx_init.c \
    src/mpid/ch4/netmod/ethmx/ethmx_lib.c \
    src/mpid/ch4/netmod/ethmx/ethmx_onesided.c \
    src/mpid/ch4/netmod/ethmx/ethmx_spawn.c \
    src/mpid/ch4/netmod/ethmx/ethmx_sync.c \
    src/mpid/ch4/netmod/ethmx/ethmx_win.c \
    src/mpid/ch4/netmod/ethmx/func_table.c

errnames_txt_files += src/mpid/ch4/netmod/ethmx/errnames.txt

endif
