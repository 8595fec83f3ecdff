/* Passkeys: a form with data-passkey has the browser make one ("create") or show one ("get") and sends what it says. It is
   shown where the browser can do that at this address; without a script nothing of it is there. */
const able = () => window.PublicKeyCredential?.parseRequestOptionsFromJSON && PublicKeyCredential.parseCreationOptionsFromJSON;

const bound = (host) => location.hostname === host || location.hostname.endsWith(`.${host}`);

const options = async (form) => {
  const answer = await fetch(form.dataset.options, { method: "POST", headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
};

const asked = async (form) => {
  const told = await options(form);
  if (form.dataset.passkey === "create") {
    return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(told.publicKey) });
  }
  return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(told.publicKey) });
};

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!able() || !bound(form.dataset.host)) continue;
  form.hidden = false;
  const failed = form.querySelector("[data-passkey-failed]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button[type=submit]");
    button.disabled = true;
    failed.hidden = true;
    try {
      form.elements.credential.value = JSON.stringify((await asked(form)).toJSON());
      form.submit();
    } catch {
      failed.hidden = false;
      button.disabled = false;
    }
  });
}
