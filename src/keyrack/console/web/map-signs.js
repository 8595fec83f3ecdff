// The signs of cars on maps: a shape for each state, so that colour is not the only difference.

export const SIZE = 22; // CSS pixels
const SCALE = 2;

// Within a square of 24: what is drawn on the disc
const FORMS = {
  driving: (pen) => { pen.moveTo(9.5, 7.5); pen.lineTo(17, 12); pen.lineTo(9.5, 16.5); pen.closePath(); pen.fill(); },
  ready: (pen) => { pen.arc(12, 12.6, 4.4, -0.9, Math.PI + 0.9); pen.moveTo(12, 6.6); pen.lineTo(12, 11.6); pen.stroke(); },
  parked: (pen) => { pen.rect(8.6, 8, 2.4, 8); pen.rect(13, 8, 2.4, 8); pen.fill(); },
  stale: (pen) => { pen.moveTo(12, 7); pen.lineTo(12, 12.5); pen.lineTo(15.5, 14.5); pen.stroke(); },
  silent: (pen) => { pen.moveTo(8.6, 8.6); pen.lineTo(15.4, 15.4); pen.moveTo(15.4, 8.6); pen.lineTo(8.6, 15.4); pen.stroke(); },
};
const DISCS = { driving: "moving", ready: "ready", parked: "car", stale: "stale", silent: "quiet" };
export const STATES = Object.keys(FORMS);

/** The picture of a state as ImageData, SCALE times as large as it is shown. */
function picture(state, colour) {
  const side = SIZE * SCALE;
  const canvas = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const pen = canvas.getContext("2d");
  pen.scale(side / 24, side / 24);
  pen.beginPath();
  pen.arc(12, 12, 10.5, 0, 2 * Math.PI);
  pen.fillStyle = colour[DISCS[state]];
  pen.strokeStyle = colour["car-rim"];
  pen.lineWidth = 2;
  pen.fill();
  pen.stroke();
  pen.fillStyle = pen.strokeStyle = colour["car-rim"];
  pen.lineCap = "round";
  pen.beginPath();
  FORMS[state](pen);
  return canvas;
}

/** Gives the signs to a map, anew after the theme has changed; and draws them into the canvases [data-sign] of its frame. */
export function addSigns(map, colour) {
  for (const state of STATES) {
    const canvas = picture(state, colour);
    const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    if (map.hasImage(state)) map.updateImage(state, image);
    else map.addImage(state, image, { pixelRatio: SCALE });
    for (const place of document.querySelectorAll(`canvas[data-sign="${state}"]`)) {
      place.width = canvas.width;
      place.height = canvas.height;
      place.getContext("2d").drawImage(canvas, 0, 0);
    }
  }
}
