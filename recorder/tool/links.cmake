# SPDX-License-Identifier: GPL-2.0-or-later
# Valgrind looks for its own files beside the tool: links in TO to those in FROM that are no tools.
file(GLOB files ${FROM}/*)
list(FILTER files EXCLUDE REGEX "-(amd64|x86)-linux$")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${TO}/${name} SYMBOLIC)
endforeach()
