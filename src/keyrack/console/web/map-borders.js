// The borders of the world, from TopoJSON to shapes of a flat map. Shapes continue across 180 degrees as on a globe. A flat map would draw
// a jump from one edge to the other across its width, so longitudes here go beyond 180.

/** {land, coasts, borders} as GeoJSON, of a topology of countries and topojson-client. */
export function bordersOf(topology, { feature, mesh }) {
  const { countries } = topology.objects;
  const shapes = feature(topology, countries).features.map(({ geometry }) => geometry);
  const islands = shapes.flatMap(({ type, coordinates }) => (type === "Polygon" ? [coordinates] : coordinates));
  return {
    land: { type: "FeatureCollection", features: islands.map((rings) => shaped("Polygon", rings.map(ring))) },
    coasts: lines(mesh(topology, countries, (one, other) => one === other)),
    borders: lines(mesh(topology, countries, (one, other) => one !== other)),
  };
}

function shaped(type, coordinates) {
  return { type: "Feature", properties: {}, geometry: { type, coordinates } };
}

function lines({ coordinates }) {
  return shaped("MultiLineString", coordinates.map(unrolled));
}

/** The same line without jumps, beyond 180 degrees if needed. */
function unrolled(points) {
  let turns = 0;
  return points.map(([longitude, latitude], number) => {
    const step = number ? longitude - points[number - 1][0] : 0;
    if (Math.abs(step) > 180) turns -= Math.sign(step);
    return [longitude + 360 * turns, latitude];
  });
}

/** A closed ring; one that goes all around the earth is closed by the pole. */
function ring(points) {
  const way = unrolled(points);
  const [first, last] = [way[0], way.at(-1)];
  if (Math.abs(first[0] - last[0]) < 180) return way;
  const pole = Math.sign(first[1]) * 90;
  return [...way, [last[0], pole], [first[0], pole], first];
}
