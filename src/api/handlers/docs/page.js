// Renders /openapi.json: groups, routes, parameters, bodies and responses. It builds DOM nodes and text, never markup.
"use strict";

const element = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
};

let api;
const resolve = (value) => (value && value.$ref ? value.$ref.slice(2).split("/").reduce((at, key) => at[key], api) : value);
const shortName = (ref) => ref.split("/").pop();

// Describes a type in a few words.
function typeOf(schema) {
  if (schema === true || Object.keys(schema).length === 0) return "any";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
  const bounds = [];
  if (schema.minimum !== undefined || schema.maximum !== undefined) bounds.push(`${schema.minimum ?? ""}…${schema.maximum ?? ""}`);
  if (schema.minLength !== undefined || schema.maxLength !== undefined) bounds.push(`${schema.minLength ?? 0}…${schema.maxLength ?? ""} characters`);
  if (schema.minItems !== undefined || schema.maxItems !== undefined) bounds.push(`${schema.minItems ?? 0}…${schema.maxItems ?? ""} items`);
  if (schema.format) bounds.push(schema.format);
  if (schema.pattern) bounds.push(schema.pattern);
  const name = [].concat(schema.type ?? "any").join(" | ");
  return bounds.length ? `${name} (${bounds.join(", ")})` : name;
}

// Returns the groups of members of which an object needs one, such as "`queues` or `pool`".
function alternatives(schema) {
  const groups = [schema.anyOf, ...(schema.allOf ?? []).map((part) => part.anyOf)].filter(Boolean);
  const names = (choice) => (choice.required ?? []).map((name) => `\`${name}\``).join(" and ");
  return groups.map((group) => [...new Set(group.map(names))].filter(Boolean).join(" or ")).filter(Boolean);
}

// Renders a schema. A reference is expanded on click, because schemas may be recursive.
function renderSchema(schema) {
  if (schema && schema.$ref) {
    const box = element("span");
    const button = element("button", { class: "ref", type: "button", "aria-expanded": "false" }, shortName(schema.$ref));
    button.addEventListener("click", () => {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) box.lastChild.remove();
      else box.append(renderSchema(resolve(schema)));
    });
    box.append(button);
    if (schema.description) box.append(element("span", { class: "faint" }, " ", ...prose(schema.description)));
    return box;
  }
  const box = element("span");
  const about = schema.description ? element("span", { class: "faint" }, " ", ...prose(schema.description)) : null;
  const parts = schema.properties ? null : schema.anyOf ?? schema.allOf;
  if (parts) {
    box.append(element("span", { class: "type" }, schema.anyOf ? "one of" : "all of"));
    if (about) box.append(about);
    box.append(element("ul", { class: "shape" }, ...parts.map((part) => element("li", {}, renderSchema(part)))));
    return box;
  }
  if (schema.items) {
    box.append(element("span", { class: "type" }, `${typeOf(schema)} of `), renderSchema(schema.items));
    if (about) box.append(about);
    return box;
  }
  box.append(element("span", { class: "type" }, typeOf(schema)));
  if (about) box.append(about);
  for (const names of alternatives(schema)) box.append(element("span", { class: "faint" }, " needs ", ...prose(names)));
  const members = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const isRequired = (schema.required ?? []).includes(name);
    return element("li", {}, element("code", { class: isRequired ? "required" : "" }, name), " ", renderSchema(member));
  });
  const others = schema.additionalProperties;
  if (others && typeof others === "object" && Object.keys(others).length) {
    members.push(element("li", {}, element("code", {}, "…"), " ", renderSchema(others)));
  }
  if (members.length) box.append(element("ul", { class: "shape" }, ...members));
  return box;
}

// Renders text with inline code between backticks.
const prose = (text) => text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));

const heading = (text) => element("h3", {}, text);

function renderOperation(operation) {
  const box = element("div", { class: "inside" });
  if (operation.description) box.append(...operation.description.split("\n\n").map((text) => element("p", {}, ...prose(text))));
  if (operation["x-roles"]) {
    const roles = operation["x-roles"].map((role) => element("span", { class: "role" }, role));
    const tenants = element("span", { class: "faint" }, operation["x-tenants"] ? " including keys that are bound to a tenant" : " except keys that are bound to a tenant");
    box.append(heading("Roles"), element("div", {}, ...roles, tenants));
  }
  if (operation.parameters) {
    const rows = operation.parameters.map((parameter) =>
      element("tr", {},
        element("td", {}, element("code", { class: parameter.required ? "required" : "" }, parameter.name), element("span", { class: "faint" }, ` ${parameter.in}`)),
        element("td", {}, renderSchema(parameter.schema)),
        element("td", { class: "faint" }, ...prose(parameter.description ?? ""))));
    box.append(heading("Parameters"), element("table", {}, ...rows));
  }
  if (operation.requestBody) {
    const schema = operation.requestBody.content["application/json"].schema;
    box.append(heading(operation.requestBody.required ? "Body" : "Body (optional)"), renderSchema(schema));
  }
  const rows = Object.entries(operation.responses).map(([status, reference]) => {
    const response = resolve(reference);
    const contents = Object.entries(response.content ?? {}).map(([type, content]) =>
      element("div", {}, type.endsWith("json") ? null : element("code", {}, `${type} `), renderSchema(content.schema)));
    return element("tr", {},
      element("td", {}, element("code", { class: status < "400" ? "ok" : "bad" }, status)),
      element("td", {}, element("div", {}, ...prose(response.description)), ...(status < "400" ? contents : [])),
    );
  });
  box.append(heading("Responses"), element("table", {}, ...rows));
  return box;
}

function show() {
  document.getElementById("version").textContent = api.info.version;
  document.getElementById("summary").textContent = api.info.summary;
  const groups = new Map(api.tags.map((tag) => [tag.name, []]));
  for (const [path, item] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(item)) groups.get(operation.tags[0]).push({ path, method, operation });
  }
  const main = document.getElementById("main");
  const tags = document.getElementById("tags");
  main.replaceChildren(element("p", { id: "about" }, ...prose(api.info.description)));
  for (const [name, routes] of groups) {
    const section = element("section", {}, element("h2", { id: `group-${name}` }, name));
    for (const { path, method, operation } of routes) {
      const details = element("details", { class: "op", id: operation.operationId },
        element("summary", {},
          element("span", { class: `method ${method}` }, method),
          element("span", { class: "path" }, path),
          element("span", { class: "what" }, operation.summary)));
      details.dataset.words = [method, path, operation.summary, operation.description ?? "", ...(operation["x-roles"] ?? [])].join(" ").toLowerCase();
      // Operations are rendered when they are opened.
      details.addEventListener("toggle", () => {
        if (details.open && details.children.length === 1) details.append(renderOperation(operation));
      });
      section.append(details);
    }
    main.append(section);
    tags.append(element("a", { href: `#group-${name}` }, name, element("span", {}, String(routes.length))));
  }
  const wanted = document.getElementById(location.hash.slice(1));
  if (wanted) {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of document.querySelectorAll("section")) {
    let any = false;
    for (const details of section.querySelectorAll("details.op")) {
      details.hidden = !words.every((word) => details.dataset.words.includes(word));
      any ||= !details.hidden;
    }
    section.hidden = !any;
  }
}

const input = document.getElementById("filter");
input.addEventListener("input", () => filter(input.value));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
});

fetch("/openapi.json")
  .then((response) => response.json())
  .then((document_) => { api = document_; show(); })
  .catch((error) => { document.getElementById("main").textContent = `Cannot load the document: ${error}`; });
