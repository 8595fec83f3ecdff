// Prints the number of each change, and stores the position: node follow_changes.ts MODULE OPTIONS FILE.
import { readFileSync, renameSync, writeFileSync } from "node:fs";

const { Keyrack } = (await import(process.argv[2]!)) as typeof import("keyrack-client");
const keyrack = new Keyrack({ ...JSON.parse(process.argv[3]!), timeout: 180 });
const place = process.argv[4]!;
let since: string | undefined;
try {
  since = readFileSync(place, "utf8");
} catch {
  since = undefined;
}
for await (const { change, position } of keyrack.changes({ since, size: 7 })) {
  process.stdout.write(`${change.id}\n`);
  writeFileSync(`${place}.new`, position);
  renameSync(`${place}.new`, place);
}
