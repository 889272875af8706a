// The dialog that asks for a bearer token; however many requests were refused, it is shown once.

let asking = null;
let dismissed = false;
let shownFor = 0;
let shownAt = null;

// Whoever dismissed it is asked again in the next view, not by the next refresh of this one.
addEventListener("hashchange", () => {
  dismissed = false;
});

// How long the dialog has been shown in all, in milliseconds: no scheduler is slow because of it.
export function timeAsked() {
  return shownFor + (shownAt === null ? 0 : performance.now() - shownAt);
}

// The token that was typed, or null if none was.
export function signIn(why) {
  if (dismissed) return Promise.resolve(null);
  asking ??= shown(why).finally(() => {
    asking = null;
    shownFor = timeAsked();
    shownAt = null;
  });
  return asking;
}

function shown(why) {
  const dialog = document.getElementById("sign-in");
  const field = document.getElementById("sign-in-token");
  const wrong = document.getElementById("sign-in-wrong");
  const done = new AbortController();
  const { signal } = done;
  document.getElementById("sign-in-why").textContent = `The scheduler answered: ${why}`;
  field.value = "";
  wrong.textContent = "";
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  shownAt = performance.now();
  dialog.querySelector("form").addEventListener(
    "submit",
    (event) => {
      // What cannot stand in a header cannot be sent at all.
      if (/^[\x20-\x7e]*$/.test(field.value.trim())) return;
      event.preventDefault();
      wrong.textContent = "This is no token: it has characters other than printable ASCII.";
      field.focus();
    },
    { signal },
  );
  dialog.addEventListener(
    "cancel",
    () => {
      field.value = "";
    },
    { signal },
  );
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        done.abort();
        const token = field.value.trim() || null;
        dismissed = token === null;
        resolve(token);
      },
      { signal },
    );
  });
}
