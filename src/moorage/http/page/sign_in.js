// The dialog that asks for a bearer token; however many requests were refused, it is shown once.

let asking = null;
let dismissed = false;

// Whoever dismissed it is asked again in the next view, not by the next refresh of this one.
addEventListener("hashchange", () => {
  dismissed = false;
});

// The token that was typed, or null if none was.
export function signIn(why) {
  if (dismissed) return Promise.resolve(null);
  asking ??= shown(why).finally(() => {
    asking = null;
  });
  return asking;
}

function shown(why) {
  const dialog = document.getElementById("sign-in");
  const field = document.getElementById("sign-in-token");
  document.getElementById("sign-in-why").textContent = `The scheduler answered: ${why}`;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const token = field.value.trim() || null;
        dismissed = token === null;
        resolve(token);
      },
      { once: true },
    );
    dialog.addEventListener(
      "cancel",
      () => {
        field.value = "";
      },
      { once: true },
    );
  });
}
