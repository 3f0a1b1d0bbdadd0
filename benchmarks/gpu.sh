#!/usr/bin/env bash
# What only a machine with a CUDA device can show, in one go:
#   benchmarks/gpu.sh DIR [EPOCHS]      DIR holds CIFAR10.npz or cifar-10-batches-py
# Tests marked gpu; the images' step, memory and loss; ResNet-50 on all of CIFAR10 with ucl, hucl,
# scl and hscl for the same number of epochs, in bf16. Begun again, it goes on where it stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
data="${1:?the folder with CIFAR10}"
epochs="${2:-20}"
python="${PYTHON:-.venv/bin/python}"

"$python" -m pytest -m gpu
"$python" benchmarks/images.py --encoder resnet50 --precision bf16 --device cuda \
  --out benchmarks/results/images-gpu.csv
"$python" -m gcl_hard.bench --dataset CIFAR10 --data-dir "$data" \
  --method ucl,hucl,scl,hscl,majority,pixels,untrained --beta 1 --epochs "$epochs" --seeds 1 \
  --precision bf16 --device cuda --monitor-every 5 --checkpoint-minutes 2 --resume \
  --output benchmarks/results/cells --report docs/results-cifar10.md
