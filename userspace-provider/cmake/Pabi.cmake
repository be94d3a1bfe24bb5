# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#
# Chooses the header of pabi/ for the installed libibverbs.

# Sets KIWARP_PABI_LAYOUT in the caller. Needs IBVERBS_VERSION and IBVERBS_LINK_LIBRARIES of
# pkg_check_modules().
function(kiwarp_choose_pabi)
  # The private ABI's number is in the library's symbol versions ...
  list(GET IBVERBS_LINK_LIBRARIES 0 library)
  file(STRINGS ${library} versions REGEX "^IBVERBS_PRIVATE_[0-9]+$")
  string(REGEX MATCH "[0-9]+" number "${versions}")
  # ... but releases with the same number differ in layout. The library's version is
  # ABI.INTERFACE.RELEASE.PATCH.
  if(IBVERBS_VERSION MATCHES "^1\\.[0-9]+\\.([0-9]+)\\.[0-9]+$")
    set(release ${CMAKE_MATCH_1})
  endif()

  set(layout pabi/layout_${number}_${release}.h)
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${layout})
    file(GLOB known RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/pabi
      ${CMAKE_CURRENT_SOURCE_DIR}/pabi/layout_*_*.h)
    list(TRANSFORM known REPLACE "layout_([0-9]+)_([0-9]+)\\.h" "rdma-core \\2 (private ABI \\1)")
    list(JOIN known ", " known)
    message(FATAL_ERROR
      "libibverbs ${IBVERBS_VERSION} (${library}, private ABI \"${number}\") is not one whose "
      "structures Kiwarp's provider knows. Known: ${known}. Install the development files of one "
      "of these, or describe this one's in ${CMAKE_CURRENT_SOURCE_DIR}/${layout}; "
      "tests/conformance_test.cc checks such a description.")
  endif()
  message(STATUS "Kiwarp: private ABI of libibverbs ${IBVERBS_VERSION}: ${layout}")
  set(KIWARP_PABI_LAYOUT ${layout} PARENT_SCOPE)
endfunction()
