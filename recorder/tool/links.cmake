# SPDX-License-Identifier: GPL-2.0-or-later
# What Valgrind looks for beside the tool (VALGRIND_LIB): links in TO to the files in FROM.
foreach(name default.supp vgpreload_core-amd64-linux.so)
  file(CREATE_LINK ${FROM}/${name} ${TO}/${name} SYMBOLIC)
endforeach()
