# SPDX-License-Identifier: Apache-2.0
# One interface target carries the flags that every part of mqblk is compiled with.
add_library(mqblk_flags INTERFACE)
target_compile_options(mqblk_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wimplicit-fallthrough -Werror
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns falsely of overlapping copies in std::string's operator+ (its bug 105651).
  target_compile_options(mqblk_flags INTERFACE -Wno-restrict)
  if(CMAKE_UNITY_BUILD)
    # Joined sources are headers to GCC, which then warns of file-local types in coroutine frames.
    target_compile_options(mqblk_flags INTERFACE -Wno-subobject-linkage)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12 is the standard library for both compilers.
  target_compile_options(mqblk_flags INTERFACE -Wno-unqualified-std-cast-call)
endif()
# CRC32C and population count by instruction: every x86-64 server since 2008 has SSE4.2.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(mqblk_flags INTERFACE -march=x86-64-v2 -mtune=native)
endif()
if(MQBLK_SANITIZE)
  target_compile_options(mqblk_flags INTERFACE -fsanitize=${MQBLK_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(mqblk_flags INTERFACE -fsanitize=${MQBLK_SANITIZE})
endif()
