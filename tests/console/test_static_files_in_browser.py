"""Static files in a browser, under the policy of every page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Response

from keyrack.console.static_files import load_static_files
from tests.console.conftest import Desk
from tests.console.test_static_files import FIRST_PAGE


@pytest.fixture
def page(desk: Desk) -> Page:
    """The page to sign in."""
    page = desk(None)
    page.goto("/console/sign-in")
    return page


def test_the_first_page_is_whole_and_light(desk: Desk) -> None:
    page = desk(None)
    fetched: list[Response] = []
    page.on("response", lambda response: fetched.append(response))
    page.goto("/console/sign-in", wait_until="networkidle")
    assert len(fetched) > 5 and {response.status for response in fetched} == {200}
    assert sum(response.request.sizes()["responseBodySize"] for response in fetched) <= FIRST_PAGE


def test_modules_of_others_run_under_the_policy(page: Page) -> None:
    base = f"/console/assets/{load_static_files().digest}"
    assert page.evaluate(f"import('{base}/uplot.mjs').then(module => typeof module.default)") == "function"
    countries = page.evaluate(
        f"""Promise.all([import('{base}/topojson-client.mjs'), fetch('{base}/countries-110m.json').then(r => r.json())])
        .then(([{{feature, mesh}}, world]) => [feature(world, world.objects.countries).features.length,
                                              mesh(world, world.objects.countries).type])"""
    )
    assert countries == [177, "MultiLineString"]
    assert page.evaluate(f"import('{base}/maplibre-gl.mjs').then(module => module.getVersion())") == "6.17.0"
    assert page.evaluate("[typeof window.topojson, typeof window.uPlot]") == ["undefined", "undefined"]


def test_icons_are_drawn_from_the_sprite(page: Page) -> None:
    width = page.evaluate(
        f"""new Promise(done => {{
            const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
            const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
            use.setAttribute("href", "/console/assets/{load_static_files().digest}/icons.svg#cars");
            drawing.append(use);
            document.body.append(drawing);
            const look = () => use.getBBox().width ? done(use.getBBox().width) : requestAnimationFrame(look);
            look();
        }})"""
    )
    assert width > 10


def test_a_map_is_drawn_by_the_worker_under_the_policy(page: Page) -> None:
    """Borders of the TopoJSON, and cities with labels without a glyph server; no request to other hosts."""
    page.add_style_tag(url=f"/console/assets/{load_static_files().digest}/maplibre-gl.css")
    drawn = page.evaluate(
        """async base => {
            const [maplibre, {feature}, world, cities] = await Promise.all([
                import(base + "/maplibre-gl.mjs"), import(base + "/topojson-client.mjs"),
                fetch(base + "/countries-110m.json").then(answer => answer.json()),
                fetch(base + "/cities.json").then(answer => answer.json())]);
            const place = ([name, longitude, latitude]) => (
                {type: "Feature", properties: {name}, geometry: {type: "Point", coordinates: [longitude, latitude]}});
            const box = document.body.appendChild(document.createElement("div"));
            box.style.height = "400px";
            const map = new maplibre.Map({container: box, center: [10, 50], zoom: 4, style: {version: 8, sources: {
                world: {type: "geojson", data: feature(world, world.objects.countries)},
                cities: {type: "geojson", data: {type: "FeatureCollection", features: cities.places.map(place)}}},
                layers: [{id: "land", type: "fill", source: "world"}, {id: "names", type: "symbol", source: "cities",
                    layout: {"text-field": ["get", "name"], "text-font": ["sans-serif"]}}]}});
            await new Promise((done, failed) => {
                map.once("idle", done);
                map.on("error", told => failed(told.error));
            });
            const names = map.queryRenderedFeatures({layers: ["names"]}).map(city => city.properties.name);
            const land = map.queryRenderedFeatures({layers: ["land"]}).map(country => country.properties.name);
            map.remove();
            box.remove();
            return {names, land};
        }""",
        f"/console/assets/{load_static_files().digest}",
    )
    assert "Berlin" in drawn["names"] and "Germany" in drawn["land"]
