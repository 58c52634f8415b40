#!/usr/bin/env bash
# The action's first step: torchmigrate, from the action's own checkout, in an environment of its own. No torch.
# -I everywhere: a venv.py or pip.py of the repository that is checked is no module of Python's; nor is one on a PYTHONPATH
# for what pip starts.
set -euo pipefail
unset PYTHONPATH PYTHONHOME

environment=${RUNNER_TEMP:?}/torchmigrate
marker=$environment/installed-from

is_new_enough() {
  "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

own_python() {
  local file
  for file in "$environment/bin/python" "$environment/Scripts/python.exe"; do
    if [[ -f $file ]]; then
      printf '%s\n' "$file"
      return
    fi
  done
  return 1
}

install() {
  local python candidate candidates=(python3 python python3.14 python3.13 python3.12 python3.11)
  if [[ -n ${INPUT_PYTHON:-} ]]; then
    candidates=("$INPUT_PYTHON")
  fi
  for candidate in "${candidates[@]}"; do
    if is_new_enough "$candidate"; then
      "$candidate" -I -m venv --clear "$environment"
      python=$(own_python)
      "$python" -I -m pip install --quiet --disable-pip-version-check "${GITHUB_ACTION_PATH:?}"
      printf '%s\n' "$GITHUB_ACTION_PATH" >"$marker"
      return
    fi
  done
  echo "::error title=torchmigrate::no Python 3.11 or newer here: run actions/setup-python first, or set the input 'python'"
  return 2
}

# used twice in one job: installed once
if [[ ! -f $marker || $(<"$marker") != "${GITHUB_ACTION_PATH:?}" ]]; then
  install
fi
python=$(own_python)
printf 'python=%s\n' "$python" >>"${GITHUB_OUTPUT:?}"
