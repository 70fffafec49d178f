# SPDX-License-Identifier: MIT
"""Packages for node that a test needs, installed once into a folder of the build."""

import os
import shutil
import subprocess


def install(wanted, modules):
    """Installs what the package.json `wanted` names into `modules`. Why that cannot be; None when they are there."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            return program + " is not installed"
    os.makedirs(modules, exist_ok=True)
    done = os.path.join(modules, "installed")  # the package.json that they were installed from
    with open(wanted, encoding="utf-8") as file:
        content = file.read()
    if os.path.exists(done):
        with open(done, encoding="utf-8") as file:
            if file.read() == content:
                return None
    copy = os.path.join(modules, "package.json")
    shutil.copyfile(wanted, copy)
    try:
        p = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=30000"],
                           cwd=modules, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    except subprocess.TimeoutExpired:
        return "npm install took too long"
    if p.returncode != 0:
        return "npm install failed: " + p.stdout[-300:]
    shutil.copyfile(copy, done)
    return None
