/**
 * A reminder as a calendar file (RFC 5545), because a page without a network cannot wake the phone.
 */

const QUARTER_MS = 900_000;

/**
 * Let the driver store a reminder of the begin of a booking.
 * @param {string} title
 * @param {number} begin in milliseconds since 1970
 */
export function remind(title, begin) {
  const address = URL.createObjectURL(new Blob([calendar(title, begin)], { type: 'text/calendar' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = 'booking.ics';
  link.click();
  URL.revokeObjectURL(address);
}

/**
 * @param {string} title
 * @param {number} begin
 */
export function calendar(title, begin) {
  const lines = [
    'BEGIN:VCALENDAR', 'VERSION:2.0', 'PRODID:-//Keyrack//Drive//EN', 'BEGIN:VEVENT',
    `UID:${begin}@keyrack-drive`, `DTSTAMP:${moment(begin)}`, `DTSTART:${moment(begin)}`,
    `DTEND:${moment(begin + QUARTER_MS)}`, `SUMMARY:${title.replace(/[\\;,]/g, '\\$&').replace(/[\r\n]+/g, ' ')}`,
    'BEGIN:VALARM', 'ACTION:DISPLAY', 'TRIGGER:-PT10M', 'DESCRIPTION:Keyrack', 'END:VALARM',
    'END:VEVENT', 'END:VCALENDAR',
  ];
  return `${lines.join('\r\n')}\r\n`;
}

/** @param {number} time */
function moment(time) {
  return `${new Date(time).toISOString().replace(/[-:]/g, '').slice(0, 15)}Z`;
}
