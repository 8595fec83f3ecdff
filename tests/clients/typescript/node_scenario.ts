// Runs the scenario: node node_scenario.ts MODULE, with the JSON of `Given` on standard input.
import { readFileSync } from "node:fs";
import type { Given } from "./scenario.ts";
import { scenario } from "./scenario.ts";

const client = (await import(process.argv[2]!)) as typeof import("keyrack-client");
const given = JSON.parse(readFileSync(0, "utf8")) as Given;
console.log(JSON.stringify(await scenario(client, given)));
