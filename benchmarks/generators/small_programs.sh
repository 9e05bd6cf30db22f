#!/bin/sh
# PTX of the small programs in programs/, by compilers that are packages of Debian 12 (clang-19, libclc-19, libomp-19-dev,
# gcc-12-offload-nvptx) or of PyPI (slangtorch and iree-base-compiler, whose slangc and iree-compile are expected on the path).
#
#     small_programs.sh FOLDER openmp|reductions|cub|gcc|opencl|slang|iree
set -eu
out=$(realpath "$1")
here=$(realpath "$(dirname "$0")")/programs
device=/usr/local/cuda/nvvm/libdevice/libdevice.10.bc

case $2 in
openmp)
    for file in "$here"/omp_*.c; do
        clang-19 -O2 -fopenmp -fopenmp-targets=nvptx64-nvidia-cuda -Xopenmp-target -march=sm_70 --offload-device-only -S -nocudalib \
            -Xclang -mlink-builtin-bitcode -Xclang /usr/lib/llvm-19/lib/libomptarget-nvptx-sm_70.bc \
            -Xclang -mlink-builtin-bitcode -Xclang $device "$file" -o "$out/$(basename "$file" .c).sm_70.ptx"
    done ;;
reductions)
    number=0
    for file in "$here"/openmp/*.c; do
        target=$([ $((number % 2)) = 0 ] && echo sm_80 || echo sm_90)
        number=$((number + 1))
        clang-19 -w -O2 -fopenmp -fopenmp-targets=nvptx64-nvidia-cuda -Xopenmp-target -march="$target" --offload-device-only -S -nocudalib \
            -Xclang -mlink-builtin-bitcode -Xclang "/usr/lib/llvm-19/lib/libomptarget-nvptx-$target.bc" \
            -Xclang -mlink-builtin-bitcode -Xclang $device "$file" -o "$out/$(basename "$file" .c).$target.ptx"
    done ;;
cub)
    for file in "$here"/cub/*.cu; do
        name=$(basename "$file" .cu)
        case $name in block_sum|block_scan|block_merge_sort|warp_sum|exchange|barrier) target=sm_80 ;; *) target=sm_90 ;; esac
        nvcc -w -ptx -std=c++17 -arch="$target" "$file" -o "$out/$name.$target.ptx"
    done ;;
gcc)
    cd "$(mktemp -d)"
    for file in "$here"/omp_*.c; do
        name=$(basename "$file" .c)
        target=$([ ${#name} -gt 8 ] && echo sm_53 || echo sm_35)
        # what is kept of the device compiler's output is wanted; the link that follows may fail
        gcc-12 -O2 -fopenmp -foffload=nvptx-none -foffload-options=-misa="$target" -save-temps -shared -fPIC "$file" -o "$name.so" || true
        cp "$name.so.xnvptx-none.mkoffload.s" "$out/$name.ptx"
    done ;;
opencl)
    for number in 0 1 2 3; do
        target=$([ $number -lt 2 ] && echo sm_75 || echo sm_80)
        clang-19 -x cl -cl-std=CL1.2 -Xclang -finclude-default-header --target=nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang "$target" \
            -O2 -S -Xclang -mlink-builtin-bitcode -Xclang /usr/lib/clc/nvptx64--nvidiacl.bc "$here/k$number.cl" \
            -o "$out/k$number.$target.ptx"
    done ;;
slang)
    for number in 0 1 2 3 4; do
        target=$([ $number -lt 2 ] && echo sm_80 || echo sm_90)
        slangc "$here/s$number.slang" -target cuda -o "$out/s$number.cu"
        nvcc -w -ptx -arch="$target" "$out/s$number.cu" -o "$out/s$number.$target.ptx"
    done ;;
iree)
    for file in "$here"/*.mlir; do
        name=$(basename "$file" .mlir)
        case $name in add|reduce_all|gather) target=sm_86 ;; reduce|conv) target=sm_89 ;; *) target=sm_80 ;; esac
        folder=$(mktemp -d)
        iree-compile --iree-hal-target-backends=cuda --iree-cuda-target="$target" --iree-input-type=stablehlo \
            --iree-hal-dump-executable-intermediates-to="$folder" "$file" -o /dev/null
        cp "$folder"/*_0_cuda_nvptx_fb.ptx "$out/$name.$target.ptx"
    done ;;
esac
