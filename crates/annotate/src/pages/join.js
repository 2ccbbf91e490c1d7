// A link of somebody else, opened from another site: nobody is signed out unasked.

import { explain, request, whoAmI } from "./api.js";
import { $, setText } from "./dom.js";

async function act(action) {
  $("error").hidden = true;
  try {
    await action();
  } catch (error) {
    setText($("error"), explain(error));
    $("error").hidden = false;
  }
}

$("stay").addEventListener("click", () => location.replace("/"));
$("join").addEventListener("click", () =>
  act(async () => {
    const token = decodeURIComponent(location.pathname.split("/").pop());
    const { page } = await request("POST", "/api/join", { token });
    location.replace(page);
  }),
);

act(async () => {
  const { person } = await whoAmI();
  setText($("name"), person.name);
});
