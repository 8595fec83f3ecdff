// The receiver of webhooks in the scenarios: an address, and the first message that arrives.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const PATIENCE = 60_000; // milliseconds for an outcome

export interface Message {
  headers: Record<string, string>;
  body: string;
}

export interface Receiver {
  url: string;
  message: Promise<Message>;
  close: () => void;
}

export async function receiver(): Promise<Receiver> {
  let arrived: (message: Message) => void;
  const message = new Promise<Message>((resolve, reject) => {
    arrived = resolve;
    setTimeout(() => reject(new Error("no outcome has come")), PATIENCE).unref();
  });
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)] as const);
      arrived({ headers: Object.fromEntries(headers), body: Buffer.concat(parts).toString() });
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/keyrack`, message, close: () => server.close() };
}

export function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
