// Verifies messages of other signers: node verify_lines.ts MODULE, with a JSON array on standard input.
import { readFileSync } from "node:fs";

interface Message {
  headers: Record<string, string>;
  body: string;
  secrets: string[];
}

const { verify } = (await import(process.argv[2]!)) as typeof import("keyrack-client");
const results = [];
for (const { headers, body, secrets } of JSON.parse(readFileSync(0, "utf8")) as Message[]) {
  const verified = verify<unknown>(headers, new TextEncoder().encode(body), ...secrets);
  results.push(await verified.catch((error: Error) => error.name));
}
console.log(JSON.stringify(results));
