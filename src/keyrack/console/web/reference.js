// The API reference in Swagger UI. Calls go to this server, in the session and the customer of the page.
import { whenever } from "./arrivals.js";

const { customer, root } = document.body.dataset;
const place = document.getElementById("reference");

/** The document without API key and token, and with the address of the session's endpoints. */
function ours(document) {
  document.servers = [{ url: `${root}/api/v3` }];
  delete document.security;
  delete document.components.securitySchemes;
  for (const path of Object.values(document.paths)) {
    for (const call of [path, ...Object.values(path)]) {
      delete call.security;
      if (call.parameters) call.parameters = call.parameters.filter((one) => !isCustomer(document, one));
    }
  }
  return document;
}

function isCustomer(document, parameter) {
  const name = parameter.$ref?.split("/").at(-1);
  return (name ? document.components.parameters[name] : parameter)?.name === "Customer-ID";
}

function asThisPerson(request) {
  request.headers["Customer-ID"] = customer;
  return request;
}

// Its own layout repeats what the page says, has a landmark of the page for itself, and a choice among one server
function calls({ React: { createElement: make }, getComponent }) {
  const parts = [["FilterContainer", true], ["errors", true], ["operations", true], ["Webhooks", true]];
  const Calls = () => make("div", { className: "swagger-ui" }, ...parts.map(([name, bound]) => make(getComponent(name, bound), { key: name })));
  return { components: { Calls } };
}

async function show() {
  const answer = await fetch(`${root}/api/openapi.json`);
  if (!answer.ok) throw new Error(answer.status);
  const spec = ours(await answer.json());
  place.replaceChildren();
  globalThis.SwaggerUIBundle({
    spec, domNode: place, docExpansion: "none", deepLinking: false, filter: true, validatorUrl: null,
    requestInterceptor: asThisPerson, plugins: [calls], layout: "Calls", defaultModelsExpandDepth: -1,
  });
}

// Headings in their order below that of the page, names for what is chosen, and the keyboard's way into what scrolls
const LEVELS = { H2: 2, H3: 2, H4: 3, H5: 4 };
whenever("#reference :is(h2, h3, h4, h5)", (heading) => heading.setAttribute("aria-level", LEVELS[heading.tagName]));
whenever("#reference :is(pre, .curl, .example, .highlight-code)", (block) => { block.tabIndex = 0; });
whenever("#reference select", (select) => {
  const name = select.closest("tr")?.dataset.paramName;
  if (name && !select.labels.length && !select.ariaLabel) select.setAttribute("aria-label", name);
});

whenever("#reference textarea", (body) => {
  if (!body.labels.length && !body.ariaLabel) body.setAttribute("aria-label", place.dataset.body);
});

show().catch(() => {
  place.textContent = place.dataset.failed;
});
