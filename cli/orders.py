"""lmzip orders: how pixel orders run, what their pixels see, and in how many steps they go."""

from __future__ import annotations

import click

from lmzip import InputError, Kernel, expand_orders, load_model
from lmzip.cli.console import Report
from lmzip.cli.drawn_files import check_drawing
from lmzip.cli.files import write_file
from lmzip.cli.options import common_options, parse_shape
from lmzip.cli.order_drawings import draw_orders

_LARGEST = 64  # pixels of a side that can be drawn


@click.command("orders")
@click.argument("orders", nargs=-1, metavar="[ORDER]...")
@click.option("--size", default="8x8", metavar="HxW", help="Height and width (default 8x8).")
@click.option("--model", default="thumb-any", metavar="MODEL", help="Whose steps to count.")
@click.option("-o", "--output", metavar="FILE", help="Draw the orders, as PNG or SVG.")
@click.option("--masks", is_flag=True, help="Draw the masks of all pixels beside each path.")
@click.option("--kernel", default=3, type=click.IntRange(1, 9), metavar="N",
              help="Side of the masks' kernel (default 3).")  # fmt: skip
@click.option("--dilation", "dilations", multiple=True, default=(1,), type=click.IntRange(1),
              metavar="N", help="Dilation of the kernel; may be repeated.")  # fmt: skip
@click.option("--later", is_flag=True, help="Masks of later layers, which see the pixel itself.")
@click.option("-f", "--force", is_flag=True, help="Overwrite an existing output.")
@common_options(threads=False)
def orders_command(
    orders: tuple[str, ...],
    size: str,
    model: str,
    output: str | None,
    masks: bool,
    kernel: int,
    dilations: tuple[int, ...],
    later: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> int:
    """Show pixel orders: raster, s-curve and hilbert, variants such as raster:flip, or raster:*.

    Prints in how many steps a model decodes an image along each order. With -o, draws the orders
    as paths.
    """
    if kernel % 2 == 0:
        raise click.UsageError(f"a kernel has a centre: {kernel} is not odd")
    report = Report(quiet=quiet, verbose=verbose, as_json=as_json)
    with report.file(output or model):
        height, width = parse_shape(size)
        chosen = expand_orders(orders or ("raster", "s-curve", "hilbert"))
        path = None if output is None else check_drawing(output, force, (".png", ".svg"))
        if path is not None and max(height, width) > _LARGEST:
            raise InputError(f"drawings show up to {_LARGEST}x{_LARGEST} pixels")
        loaded = load_model(model)
        report.line(f"{'order':<28} {'pixels':>9} {'steps':>9}   with {loaded.name}")
        for order in chosen:
            steps, pixels = loaded.count_steps(order, height, width), height * width
            line = f"{order!s:<28} {pixels:>9,} {steps:>9,}"
            report.result(line, order=str(order), height=height, width=width, model=loaded.name,
                          steps=steps)  # fmt: skip
        if path is not None:
            kernels = [Kernel(kernel, kernel, dilation, not later) for dilation in dilations]
            canvas = draw_orders(chosen, height, width, kernels if masks else ())
            data = canvas.to_svg() if path.suffix.lower() == ".svg" else canvas.to_png()
            write_file(path, data, force=force)
    return report.finish()
