[#] start of __file__
dnl SPDX-License-Identifier: BSD-3-Clause
dnl
dnl MPICH_SUBCFG_AFTER=src/mpid/ch4

AC_DEFUN([PAC_SUBCFG_PREREQ_]PAC_SUBCFG_AUTO_SUFFIX,[
    AM_COND_IF([BUILD_CH4],[
        for net in $ch4_netmods ; do
            if test "$net" = "ethmx" ; then
                build_ch4_netmod_ethmx=yes
                AC_DEFINE([HAVE_CH4_NETMOD_ETHMX],[1],[ethmx netmod is built])
                AC_DEFINE([MPIDI_BUILD_CH4_LOCALITY_INFO],[1],[CH4 should build locality info])
            fi
        done
    ])
    AM_CONDITIONAL([BUILD_CH4_NETMOD_ETHMX],[test "X$build_ch4_netmod_ethmx" = "Xyes"])
])dnl

AC_DEFUN([PAC_SUBCFG_BODY_]PAC_SUBCFG_AUTO_SUFFIX,[
AM_COND_IF([BUILD_CH4_NETMOD_ETHMX],[
    AC_MSG_NOTICE([RUNNING CONFIGURE FOR ch4:ethmx])
    AC_DEFINE([ENABLE_COMM_OVERRIDES],[1],[define to add per-vc function pointers to override send and recv functions])

    AC_ARG_WITH([ethmx],
        AS_HELP_STRING([--with-ethmx=PREFIX],[where ethmx is installed (ch4:ethmx); default: what pkg-config knows]),
        [],[with_ethmx=yes])
    AS_CASE([$with_ethmx],
        [yes],[
            ethmx_cflags=`pkg-config --cflags ethmx 2>/dev/null`
            ethmx_libdir=`pkg-config --variable=libdir ethmx 2>/dev/null`
        ],
        [no],[AC_MSG_ERROR([ch4:ethmx needs ethmx: do not say --without-ethmx])],
        [
            ethmx_cflags="-I$with_ethmx/include"
            ethmx_libdir=`PKG_CONFIG_PATH=$with_ethmx/lib/pkgconfig:$with_ethmx/lib64/pkgconfig pkg-config --variable=libdir ethmx 2>/dev/null`
            AS_IF([test -z "$ethmx_libdir"],[ethmx_libdir=$with_ethmx/lib])
        ])
    PAC_APPEND_FLAG([$ethmx_cflags],[CPPFLAGS])
    AS_IF([test -n "$ethmx_libdir"],[PAC_APPEND_FLAG([-L$ethmx_libdir],[LDFLAGS])])
    AC_CHECK_HEADER([ethmx.h],[],
        [AC_MSG_ERROR([ethmx.h was not found. Install ethmx (make install) and give --with-ethmx=PREFIX])])
    dnl Only looked for here: it is loaded when a program starts.
    AC_CHECK_LIB([ethmx],[ethmx_am_send],[:],
        [AC_MSG_ERROR([libethmx was not found, or is too old. Install ethmx (make install) and give --with-ethmx=PREFIX])])
    AC_SEARCH_LIBS([dlopen],[dl])
    dnl Programs find libethmx where it is installed now; LD_LIBRARY_PATH comes before that.
    AS_IF([test -n "$ethmx_libdir"],[
        PAC_APPEND_FLAG([-Wl,--enable-new-dtags,-rpath,$ethmx_libdir],[LDFLAGS])
    ])
])dnl end AM_COND_IF(BUILD_CH4_NETMOD_ETHMX,...)
])dnl end _BODY

[#] end of __file__
