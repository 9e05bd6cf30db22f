"""PTX of kernels that loopy transforms, through its CUDA code and nvcc.

python loopy_kernels.py FOLDER
"""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import loopy as lp
import numpy as np

FLOAT, DOUBLE, INT = np.float32, np.float64, np.int32


def made(domains, instructions, **types):
    return lp.add_dtypes(lp.make_kernel(domains, instructions, target=lp.CudaTarget()), types)


def axpy():
    k = made("{[i]: 0<=i<n}", "y[i] = a*x[i] + y[i]", x=FLOAT, y=FLOAT, a=FLOAT)
    return lp.split_iname(k, "i", 128, outer_tag="g.0", inner_tag="l.0")


def unrolled():
    k = lp.assume(made("{[i]: 0<=i<n}", "y[i] = x[i]**2 + 1", x=DOUBLE, y=DOUBLE), "n mod 4 = 0 and n >= 4")
    k = lp.split_iname(k, "i", 4, inner_tag="unr")
    return lp.split_iname(k, "i_outer", 64, outer_tag="g.0", inner_tag="l.0")


def transpose():
    k = made("{[i,j]: 0<=i,j<n}", "b[i, j] = a[j, i]", a=FLOAT, b=FLOAT)
    k = lp.split_iname(lp.split_iname(k, "i", 16, outer_tag="g.0", inner_tag="l.1"), "j", 16, outer_tag="g.1", inner_tag="l.0")
    return lp.add_prefetch(lp.assume(k, "n mod 16 = 0 and n >= 16"), "a", ["i_inner", "j_inner"], default_tag="l.auto")


def matmul(block=16, kind=FLOAT):
    k = made("{[i,j,k]: 0<=i<n and 0<=j<m and 0<=k<l}", "c[i, j] = sum(k, a[i, k]*b[k, j])", a=kind, b=kind)
    k = lp.assume(k, f"n mod {block} = 0 and m mod {block} = 0 and l mod {block} = 0 and n >= 1 and m >= 1 and l >= 1")
    k = lp.split_iname(k, "i", block, outer_tag="g.0", inner_tag="l.1")
    k = lp.split_iname(k, "j", block, outer_tag="g.1", inner_tag="l.0")
    k = lp.split_iname(k, "k", block)
    outer = "i_outer,j_outer,k_outer"
    k = lp.add_prefetch(k, "a", ["k_inner", "i_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    return lp.add_prefetch(k, "b", ["j_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")


def short_row_sums():
    k = lp.fix_parameters(made("{[i,j]: 0<=i<n and 0<=j<m}", "out[i] = sum(j, x[i, j])", x=FLOAT), m=256)
    return lp.tag_inames(k, {"i": "g.0", "j": "l.0"})


def stencil():
    k = made("{[i,j]: 0<=i<n and 0<=j<n}", "r[i, j] = -4*u[i+1, j+1] + u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2]", u=FLOAT)
    k = lp.assume(k, "n mod 16 = 0 and n >= 16")
    k = lp.split_iname(lp.split_iname(k, "i", 16, outer_tag="g.1", inner_tag="l.1"), "j", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(k, "u", ["i_inner", "j_inner"], fetch_bounding_box=True, default_tag="l.auto")


def spectral_element():
    k = made(
        "{[e,i,j,k,l]: 0<=e<n and 0<=i,j,k,l<8}",
        """
        ur(a, b, c) := sum(l, d[a, l]*u[e, l, b, c])
        us(a, b, c) := sum(l, d[b, l]*u[e, a, l, c])
        w[e, i, j, k] = ur(i, j, k) + g[e, i, j, k]*us(i, j, k)
        """,
        d=FLOAT, u=FLOAT, g=FLOAT,
    )  # fmt: skip
    k = lp.tag_inames(k, {"e": "g.0", "i": "l.0", "j": "l.1", "k": "ilp"})
    return lp.add_prefetch(k, "d", ["i", "l"], fetch_outer_inames="e", default_tag="l.auto")


def nbody():
    k = made(
        "{[i,j]: 0<=i,j<n}",
        "f[i] = sum(j, (x[j]-x[i]) / ((x[j]-x[i])**2 + 0.01))",
        x=FLOAT,
    )
    k = lp.split_iname(lp.assume(k, "n mod 128 = 0 and n >= 128"), "i", 128, outer_tag="g.0", inner_tag="l.0")
    k = lp.split_iname(k, "j", 128)
    return lp.add_prefetch(k, "x[j]", ["j_inner"], fetch_outer_inames="i_outer,j_outer", default_tag="l.auto")


def gather():
    k = made("{[i,j]: 0<=i<n and 0<=j<8}", "y[i] = sum(j, v[i, j]*x[c[i, j]])", v=DOUBLE, x=DOUBLE, c=INT)
    return lp.split_iname(k, "i", 64, outer_tag="g.0", inner_tag="l.0")


def two_steps():
    """A value for each thread goes through shared memory to its neighbour."""
    k = made(
        "{[g,i,ii]: 0<=g<n and 0<=i,ii<64}",
        """
        for g
            <> t[i] = x[g, i]*2 {id=first}
            y[g, ii] = t[63-ii] + t[ii] {dep=first}
        end
        """,
        x=FLOAT,
    )
    return lp.tag_inames(lp.set_temporary_address_space(k, "t", "local"), {"g": "g.0", "i": "l.0", "ii": "l.0"})


KERNELS = {
    "axpy": axpy,
    "unrolled": unrolled,
    "transpose": transpose,
    "matmul": matmul,
    "matmul_8": lambda: matmul(8, DOUBLE),
    "matmul_32": lambda: matmul(32),
    "short_row_sums": short_row_sums,
    "stencil": stencil,
    "spectral_element": spectral_element,
    "nbody": nbody,
    "gather": gather,
    "two_steps": two_steps,
}


def main():
    out = Path(sys.argv[1])
    for number, (name, make) in enumerate(KERNELS.items()):
        target = ("sm_80", "sm_90")[number % 2]
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                code = lp.generate_code_v2(lp.add_inames_for_unused_hw_axes(lp.realize_reduction(make()))).device_code()
        except Exception as error:
            print(name, repr(error)[:200], file=sys.stderr)
            continue
        source = out / f"{name}.cu"
        source.write_text("#include <math_constants.h>\n" + code)
        subprocess.run(["nvcc", "-ptx", f"-arch={target}", str(source), "-o", str(out / f"{name}.{target}.ptx")], check=False)


if __name__ == "__main__":
    main()
