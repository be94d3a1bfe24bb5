# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Chooses the header of pabi/ for the installed libibverbs.

set(KIWARP_PABI_DIR ${CMAKE_CURRENT_LIST_DIR}/../pabi)

# What a layout's header defines as KIWARP_PABI_<name>.
function(kiwarp_read_layout header name result)
  file(STRINGS ${header} line REGEX "^#define KIWARP_PABI_${name} [0-9]+$")
  string(REGEX MATCH "[0-9]+$" value "${line}")
  set(${result} ${value} PARENT_SCOPE)
endfunction()

# kiwarp_choose_pabi(LIBRARY VERSION): sets KIWARP_PABI_LAYOUT and KIWARP_PABI_NUMBER in the caller.
function(kiwarp_choose_pabi library version)
  # The private ABI's number is in the library's symbol versions ...
  file(STRINGS ${library} versions REGEX "^IBVERBS_PRIVATE_[0-9]+$")
  string(REGEX MATCH "[0-9]+" number "${versions}")
  # ... but releases with the same number differ in layout. The library's version is
  # ABI.INTERFACE.RELEASE.PATCH.
  set(release 0)
  if(version MATCHES "^1\\.[0-9]+\\.([0-9]+)\\.[0-9]+$")
    set(release ${CMAKE_MATCH_1})
  endif()

  file(GLOB headers ${KIWARP_PABI_DIR}/layout_*.h)
  list(SORT headers COMPARE NATURAL)
  foreach(header ${headers})
    kiwarp_read_layout(${header} NUMBER its_number)
    kiwarp_read_layout(${header} FIRST first)
    kiwarp_read_layout(${header} LAST last)
    set(range "${first} to ${last}")
    if(first EQUAL last)
      set(range ${first})
    endif()
    list(APPEND known "${range} (private ABI ${its_number})")
    if(number STREQUAL its_number AND release GREATER_EQUAL first AND release LESS_EQUAL last)
      cmake_path(GET header FILENAME layout)
    endif()
  endforeach()
  if(NOT layout)
    list(JOIN known ", " known)
    message(FATAL_ERROR
      "libibverbs ${version} (${library}, private ABI \"${number}\") is not one whose "
      "structures Kiwarp's provider knows. Known: rdma-core ${known}. Install the development "
      "files of one of these, or describe this one's in a header of ${KIWARP_PABI_DIR}; "
      "tests/conformance_test.cc checks such a description.")
  endif()
  message(STATUS "Kiwarp: private ABI of libibverbs ${version}: pabi/${layout}")
  set(KIWARP_PABI_LAYOUT pabi/${layout} PARENT_SCOPE)
  set(KIWARP_PABI_NUMBER ${number} PARENT_SCOPE)
endfunction()
