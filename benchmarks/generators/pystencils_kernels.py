"""PTX of stencils and lattice Boltzmann methods that pystencils and lbmpy turn into CUDA, by nvcc for sm_90.

python pystencils_kernels.py FOLDER
"""

import subprocess
import sys
from pathlib import Path

import pystencils
import sympy
from lbmpy import LBMConfig, LBStencil, Method, Stencil, create_lb_update_rule
from pystencils import Assignment, Target, fields

HEADER = "#include <cstdint>\n#define RESTRICT __restrict__\n#define FUNC_PREFIX __global__\n"
NEAR = (-1, 0, 1)


def stencils():
    f, g = fields("f,g: double[2D]")
    u, v, w = fields("u,v,w: float[3D]")
    flow = fields("vel(3): float[3D]")
    yield "jacobi2d", [Assignment(g[0, 0], (f[1, 0] + f[-1, 0] + f[0, 1] + f[0, -1]) / 4)]
    yield "laplace27", [Assignment(v[0, 0, 0], sum(u[i, j, k] for i in NEAR for j in NEAR for k in NEAR) - 27 * u[0, 0, 0])]
    along_x, along_y = flow[1, 0, 0](0) - flow[-1, 0, 0](0), flow[0, 1, 0](1) - flow[0, -1, 0](1)
    yield "divergence", [Assignment(w[0, 0, 0], (along_x + along_y + flow[0, 0, 1](2) - flow[0, 0, -1](2)) / 2)]
    yield "inplace", [Assignment(f[0, 0], sympy.sin(f[0, 0]) * g[0, 0] + 1)]
    for stencil, method, kind in (
        (Stencil.D2Q9, Method.SRT, "stream_pull_collide"),
        (Stencil.D3Q19, Method.TRT, "stream_pull_collide"),
        (Stencil.D2Q9, Method.MRT, "collide_stream_push"),
    ):
        config = LBMConfig(stencil=LBStencil(stencil), method=method, kernel_type=kind, relaxation_rate=1.7)
        yield f"lbm_{stencil.name}_{method.name}_{kind}".lower(), create_lb_update_rule(lbm_config=config)


def main():
    out = Path(sys.argv[1])
    config = pystencils.CreateKernelConfig(target=Target.CUDA)
    for name, assignments in stencils():
        code = pystencils.create_kernel(assignments, config).get_c_code()
        source = out / f"{name}.cu"
        source.write_text(HEADER + code.replace("__global__ void kernel", f'extern "C" __global__ void {name}'))
        subprocess.run(["nvcc", "-ptx", "-arch=sm_90", str(source), "-o", str(out / f"{name}.sm_90.ptx")], check=True)


if __name__ == "__main__":
    main()
