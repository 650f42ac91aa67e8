//! An OpenAPI description (3.0 and 3.1): its writing operations become tools.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};
use toml::Table;

use super::plan::{Api, Plan, name_of};
use super::schema::{Schema, is_list};
use crate::exit::{Exit, Failure};

/// Methods that write.
const WRITING: [&str; 4] = ["post", "put", "patch", "delete"];

/// Reads a description.
pub(super) fn plan(text: &str, file: &Path, url: Option<&str>) -> Result<Plan, Failure> {
    let unusable = |what: String| {
        Failure::new(Exit::Failed, format!("{}: {what}", file.display()))
            .not("Nothing was written.")
            .next("Name an OpenAPI 3 description, as JSON or YAML.")
    };
    let document = parse(text).map_err(unusable)?;
    if !document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")) {
        return Err(unusable("it is no OpenAPI 3 description".to_owned()));
    }
    let url = url.map(ToOwned::to_owned).or_else(|| server_of(&document)).ok_or_else(|| {
        unusable("it names no address of the API".to_owned()).next("Say where the API is: --url https://….")
    })?;
    if url.contains(['?', '@', '#']) {
        let shown = url.split(['?', '#']).next().unwrap_or_default().rsplit('@').next().unwrap_or_default();
        let what = format!("the address of the API ({shown}) has a ?, an @ or a # in it, where credentials lie");
        return Err(
            unusable(what).next("Say it without: --url https://…; its credential is the auth of the destination.")
        );
    }
    let name = name_of(&document["info"]["title"].as_str().unwrap_or("api").to_lowercase());
    let mut plan = Plan::default();
    let (mut tools, mut keyed) = (Vec::new(), Vec::new());
    let mut taken = BTreeSet::new();
    for (path, item) in members(&document["paths"]) {
        for method in WRITING {
            let Some(operation) = item.get(method) else { continue };
            let found = Operation { document: &document, path, method, operation, item };
            match found.tool() {
                Ok((wanted, table)) => {
                    let mut name = wanted.clone();
                    for n in 2.. {
                        if taken.insert(name.clone()) {
                            break;
                        }
                        name = format!("{wanted}_{n}");
                    }
                    keyed.extend(found.takes_a_key().then(|| name.clone()));
                    tools.push((name, table));
                }
                Err(why) => plan.notes.push(format!("{} {path} was left out: {why}", method.to_uppercase())),
            }
        }
    }
    if tools.is_empty() {
        let why: String = plan.notes.iter().map(|note| format!("\n  {note}")).collect();
        return Err(unusable(format!("it has no operation that writes and could be a tool{why}")));
    }
    let all_keyed = keyed.len() == tools.len();
    if !keyed.is_empty() && !all_keyed {
        plan.notes.push(format!(
            "these take an Idempotency-Key, and the others do not: {}. They are sent without one, which some APIs refuse: put them into \
             a destination of their own, with a contract (docs/configuration.md, a destination that recognises keys)",
            keyed.join(", ")
        ));
    }
    if all_keyed {
        plan.notes.push(
            "its operations take an Idempotency-Key; how long it is remembered and what is stored, only you can say \
             (docs/configuration.md, a destination that recognises keys)"
                .to_owned(),
        );
    }
    let contract = if all_keyed { "ietf.idempotency_key" } else { "none" };
    let (auth, variable) = auth_of(&document, &name).unzip();
    if auth.is_none() && members(&document["components"]["securitySchemes"]).next().is_some() {
        let note = "its credential is of a kind that is not written here; give the destination its auth (docs/configuration.md)";
        plan.notes.push(note.to_owned());
    }
    plan.apis.push(Api { name, url, contract, auth, variable, tools });
    Ok(plan)
}

/// JSON, or YAML.
fn parse(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(document) => Ok(document),
        Err(_) if !text.trim_start().starts_with('{') => {
            let document: serde_norway::Value = serde_norway::from_str(text).map_err(|error| error.to_string())?;
            Ok(as_json(document))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// YAML as JSON has it: a status such as 200 is a key there, and a text here.
fn as_json(value: serde_norway::Value) -> Value {
    use serde_norway::Value as Yaml;
    match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(truth) => truth.into(),
        Yaml::Number(number) => serde_json::to_value(number).unwrap_or_default(),
        Yaml::String(text) => text.into(),
        Yaml::Sequence(elements) => elements.into_iter().map(as_json).collect(),
        Yaml::Mapping(members) => members
            .into_iter()
            .map(|(key, value)| {
                let key = match as_json(key) {
                    Value::String(key) => key,
                    other => other.to_string(),
                };
                (key, as_json(value))
            })
            .collect::<Map<_, _>>()
            .into(),
        Yaml::Tagged(tagged) => as_json(tagged.value),
    }
}

fn server_of(document: &Value) -> Option<String> {
    let server = &document["servers"][0];
    let mut url = server["url"].as_str()?.to_owned();
    for (name, variable) in members(&server["variables"]) {
        url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
    }
    url.starts_with("http").then(|| url.trim_end_matches('/').to_owned())
}

/// The credential of the first scheme that a destination can carry, and the variable that it is read from.
fn auth_of(document: &Value, api: &str) -> Option<(Table, String)> {
    let variable = format!("{}_TOKEN", api.to_uppercase().replace('-', "_"));
    let schemes = &document["components"]["securitySchemes"];
    // What the description asks for comes before what it only describes.
    let asked = document["security"].as_array().into_iter().flatten().flat_map(members).map(|(name, _)| &schemes[name]);
    let described = members(schemes).map(|(_, scheme)| scheme);
    asked.chain(described).find_map(|scheme| {
        let word = |field: &str| scheme[field].as_str().unwrap_or_default();
        let table = match (word("type"), word("scheme").to_lowercase().as_str(), word("in")) {
            ("http", "bearer", _) | ("oauth2" | "openIdConnect", _, _) => bearer(&variable),
            ("http", "basic", _) => Table::from_iter([
                ("user".to_owned(), format!("env:{variable}_USER").into()),
                ("password".to_owned(), format!("env:{variable}").into()),
            ]),
            ("apiKey", _, "header") => Table::from_iter([
                ("header".to_owned(), word("name").into()),
                ("value".to_owned(), format!("env:{variable}").into()),
            ]),
            _ => return None,
        };
        Some((table, variable.clone()))
    })
}

/// `auth = { bearer = "env:NAME" }`
pub(super) fn bearer(variable: &str) -> Table {
    Table::from_iter([("bearer".to_owned(), format!("env:{variable}").into())])
}

/// `request = { method, path, query, body }`
pub(super) fn request<const N: usize>(
    method: &str,
    path: &str,
    more: [(&str, toml::Value); N],
    body: toml::Value,
) -> toml::Value {
    let mut table = Table::from_iter([("method".to_owned(), method.into()), ("path".to_owned(), path.into())]);
    table.extend(more.into_iter().map(|(field, value)| (field.to_owned(), value)));
    if body.as_str() != Some("") {
        table.insert("body".to_owned(), body);
    }
    toml::Value::Table(table)
}

/// One operation of the description.
struct Operation<'a> {
    document: &'a Value,
    path: &'a str,
    method: &'a str,
    operation: &'a Value,
    item: &'a Value,
}

impl Operation<'_> {
    /// The tool's name and table.
    fn tool(&self) -> Result<(String, Table), String> {
        let mut schema = Schema::default();
        let (mut path, mut query, mut headers) = (self.path.to_owned(), Table::new(), Table::new());
        for parameter in self.parameters() {
            let name = parameter["name"].as_str().unwrap_or_default();
            if is_key(name) {
                continue;
            }
            let place = format!("{{/{}}}", escaped(name));
            match parameter["in"].as_str() {
                Some("path") => path = path.replace(&format!("{{{name}}}"), &place),
                Some("query") if is_list(resolved(self.document, &parameter["schema"])) => {
                    if parameter["required"].as_bool() == Some(true) {
                        return Err(format!(
                            "its query parameter {name:?} is a list or an object, which is not written into an address here"
                        ));
                    }
                    continue;
                }
                Some("query") => drop(query.insert(name.to_owned(), place.into())),
                Some("header") if !self.is_ours(name) => drop(headers.insert(name.to_owned(), place.into())),
                Some("cookie") if parameter["required"].as_bool() == Some(true) => {
                    return Err(format!("it needs the cookie {name:?}, and a destination is sent none"));
                }
                _ => continue,
            }
            let required = parameter["required"].as_bool() == Some(true);
            schema.add(name, &parameter["schema"], parameter["description"].as_str(), required)?;
        }
        let body = self.body(&mut schema)?;
        let method = self.method.to_uppercase();
        let mut more = Vec::new();
        if !query.is_empty() {
            more.push(("query", toml::Value::Table(query)));
        }
        if !headers.is_empty() {
            more.push(("headers", toml::Value::Table(headers)));
        }
        let mut request = request(&method, &path, [], body);
        if self.content().is_some_and(|(kind, _)| is_form(kind)) {
            more.push(("encoding", "form".into()));
        }
        if let Some(table) = request.as_table_mut() {
            table.extend(more.into_iter().map(|(field, value)| (field.to_owned(), value)));
        }
        let text = |field: &str| self.operation[field].as_str().filter(|text| !text.trim().is_empty());
        let mut table = Table::new();
        if let Some(about) = text("summary").or_else(|| text("description")) {
            let line: String = about.lines().next().unwrap_or_default().chars().take(200).collect();
            table.insert("title".to_owned(), line.replace('{', "{{").replace('}', "}}").into());
            table.insert("description".to_owned(), line.into());
        }
        let is_open = request.get("body").and_then(toml::Value::as_str) == Some("arguments");
        table.insert("request".to_owned(), request);
        if let Some(id) = self.effect_id() {
            table.insert("effect_id".to_owned(), id.into());
        }
        // Where each argument has its place, one that has none would be dropped without a word.
        let mut schema = schema.whole(self.document)?;
        if !is_open {
            schema["additionalProperties"] = false.into();
        }
        let schema = toml::Value::try_from(schema)
            .map_err(|_| "its schema has a value that this configuration cannot hold (null)".to_owned())?;
        table.insert("schema".to_owned(), schema);
        Ok((self.name(), table))
    }

    fn name(&self) -> String {
        match self.operation["operationId"].as_str() {
            Some(id) => name_of(id),
            None => name_of(&format!("{}_{}", self.method, self.path.trim_matches('/').replace(['{', '}'], ""))),
        }
    }

    fn parameters(&self) -> impl Iterator<Item = &Value> {
        let of = |value: &Value| value["parameters"].as_array().map(Vec::len).unwrap_or_default();
        let (shared, own) = (of(self.item), of(self.operation));
        (0..shared)
            .map(|at| &self.item["parameters"][at])
            .chain((0..own).map(|at| &self.operation["parameters"][at]))
            .map(|parameter| resolved(self.document, parameter))
    }

    fn takes_a_key(&self) -> bool {
        self.parameters().any(|parameter| parameter["name"].as_str().is_some_and(is_key))
    }

    /// Headers that are made for each request.
    fn is_ours(&self, name: &str) -> bool {
        ["authorization", "content-type", "accept", "content-length", "host"].contains(&name.to_lowercase().as_str())
    }

    /// The body: each member an argument of its own where it is an object, else one argument.
    fn body(&self, schema: &mut Schema) -> Result<toml::Value, String> {
        let body = resolved(self.document, &self.operation["requestBody"]);
        if body.is_null() {
            return Ok("".into());
        }
        let Some((_, content)) = self.content() else {
            return Err("its body is neither application/json nor a form".to_owned());
        };
        let whole = resolved(self.document, &content["schema"]);
        let plain =
            whole["properties"].is_object() && ["allOf", "oneOf", "anyOf"].iter().all(|word| whole[*word].is_null());
        if !plain || members(&whole["properties"]).any(|(name, _)| schema.has(name)) {
            // A body that has members which must be there is not left out.
            let demands = whole["required"].as_array().is_some_and(|names| !names.is_empty());
            schema.add("body", &content["schema"], None, demands || body["required"].as_bool() == Some(true))?;
            return Ok("{/body}".into());
        }
        let required: Vec<&str> =
            whole["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let alone = schema.is_empty();
        let mut template = Table::new();
        for (name, member) in members(&whole["properties"]) {
            // What only answers have is no argument.
            if resolved(self.document, member)["readOnly"].as_bool() == Some(true) {
                continue;
            }
            schema.add(name, member, None, required.contains(&name.as_str()))?;
            template.insert(name.clone(), format!("{{/{}}}", escaped(name)).into());
        }
        // The same, in fewer words, where nothing but the body is an argument.
        Ok(if alone { "arguments".into() } else { toml::Value::Table(template) })
    }

    /// The body's schema, as JSON or else as a form.
    fn content(&self) -> Option<(&String, &Value)> {
        let body = resolved(self.document, &self.operation["requestBody"]);
        let of = |wanted: fn(&str) -> bool| members(&body["content"]).find(|(kind, _)| wanted(kind));
        of(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json")).or_else(|| of(is_form))
    }

    /// Where a successful answer has the name of what was made.
    fn effect_id(&self) -> Option<&'static str> {
        let made = ["201", "200", "202"].iter().find_map(|status| {
            let response = resolved(self.document, &self.operation["responses"][*status]);
            let (_, content) = members(&response["content"]).find(|(kind, _)| kind.contains("json"))?;
            Some(resolved(self.document, &content["schema"]))
        })?;
        made["properties"]["id"].is_object().then_some("/id")
    }
}

/// What a reference inside the description leads to; the value itself where it is none, or leads nowhere.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let mut value = value;
    // A reference to a reference ends somewhere, or it is a circle.
    for _ in 0..8 {
        match value["$ref"].as_str().and_then(|place| document.pointer(place.strip_prefix('#')?)) {
            Some(next) => value = next,
            None => break,
        }
    }
    value
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn is_form(kind: &str) -> bool {
    kind.starts_with("application/x-www-form-urlencoded")
}

fn is_key(name: &str) -> bool {
    name.eq_ignore_ascii_case("idempotency-key")
}

/// A member's name inside a pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r##"
openapi: 3.0.3
info: { title: Shop API, version: "1" }
servers: [{ url: "https://shop.example/{v}", variables: { v: { default: v1 } } }]
components:
  securitySchemes: { token: { type: http, scheme: bearer } }
  parameters:
    Dry: { name: dry_run, in: query, schema: { type: boolean } }
  schemas:
    Line: { type: object, required: [sku], properties: { sku: { type: string }, more: { $ref: "#/components/schemas/Line" } } }
paths:
  /orders:
    get: { operationId: listOrders, responses: { 200: { description: all } } }
    post:
      operationId: createOrder
      summary: Places an order.
      parameters: [{ $ref: "#/components/parameters/Dry" }, { name: Idempotency-Key, in: header, schema: { type: string } }]
      requestBody:
        required: true
        content: { application/json: { schema: { type: object, required: [id, lines], properties: {
          id: { type: string, readOnly: true },
          lines: { type: array, items: { $ref: "#/components/schemas/Line" } },
          note: { type: string, nullable: true, example: null },
          discount: { type: number, minimum: 0, exclusiveMinimum: true } } } } }
      responses: { 201: { description: made, content: { application/json: { schema: {
        type: object, properties: { id: { type: string } } } } } } }
  /orders/{order_id}/notes:
    parameters: [{ name: order_id, in: path, required: true, schema: { type: string } }]
    post:
      requestBody: { content: { application/json: { schema: { type: object, properties: { text: { type: string } } } } } }
      responses: {}
  /orders/{order_id}:
    delete:
      operationId: cancelOrder
      parameters: [{ name: order_id, in: path, required: true, schema: { type: string } }]
      responses: {}
  /upload:
    post: { operationId: upload, requestBody: { content: { multipart/form-data: {} } }, responses: {} }
"##;

    #[test]
    fn writing_operations_become_tools_and_reading_ones_do_not() {
        let plan = plan(SHOP, Path::new("shop.yaml"), None).unwrap();
        let text = plan.to_toml();
        for line in [
            "[destination.shop_api]",
            r#"url = "https://shop.example/v1""#,
            r#"auth = { bearer = "env:SHOP_API_TOKEN" }"#,
            "[destination.shop_api.tool.createOrder]",
            r#"query = { dry_run = "{/dry_run}" }"#,
            r#"effect_id = "/id""#,
            "[destination.shop_api.tool.cancelOrder]",
            r#"path = "/orders/{/order_id}""#,
            "[destination.shop_api.tool.post_orders_order_id_notes]",
            r#"body = { text = "{/text}" }"#,
            r##""$ref" = "#/$defs/Line""##,
            r#"exclusiveMinimum = 0"#,
            r#"type = ["string", "null"]"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.contains(r#"required = ["lines"]"#), "what only answers have is no argument: {text}");
        assert!(!text.contains("listOrders") && !text.contains("Idempotency-Key"), "{text}");
        assert!(
            plan.notes
                .iter()
                .any(|note| note.contains("/upload") && note.contains("neither application/json nor a form")),
            "{:?}",
            plan.notes
        );
        assert_eq!(plan.missing_variables(), ["SHOP_API_TOKEN"]);
    }

    #[test]
    fn what_is_written_is_a_configuration_that_check_accepts() {
        struct AnySecret;
        impl onceward_destinations::secrets::SecretSource for AnySecret {
            fn variable(&self, _: &str) -> Option<String> {
                Some("sk_test_1".to_owned())
            }
            fn file(&self, _: &Path) -> std::io::Result<Vec<u8>> {
                Err(std::io::ErrorKind::NotFound.into())
            }
        }
        let text = plan(SHOP, Path::new("shop.yaml"), None).unwrap().to_toml();
        let read = onceward_gateway::config::Config::from_toml(&text, "onceward.toml", Path::new("."), &AnySecret);
        let config = read.unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"));
        assert_eq!(config.catalog.tools().len(), 3);
    }

    #[test]
    fn an_argument_without_a_place_is_refused_and_what_cannot_be_sent_is_left_out_with_a_note() {
        let text = r##"
openapi: 3.0.3
info: { title: Shop }
servers: [{ url: "https://shop.example" }]
security: [{ token: [] }]
paths:
  /orders/{id}:
    patch:
      operationId: change
      parameters: [{ name: id, in: path, required: true, schema: { type: string } }]
      requestBody: { content: { application/json: { schema: { type: object, required: [id, name],
        properties: { id: { type: string, readOnly: true }, name: { type: string } } } } } }
  /tags:
    post:
      operationId: tag
      parameters: [{ name: ids, in: query, required: true, schema: { type: array } }]
  /merge:
    patch:
      operationId: merge
      requestBody: { content: { application/merge-patch+json: { schema: { type: object } } } }
  /far:
    post:
      operationId: far
      requestBody: { content: { application/json: { schema: { $ref: "common.yaml#/Foo" } } } }
components:
  securitySchemes:
    old: { type: apiKey, in: header, name: X-Legacy }
    token: { type: http, scheme: bearer }
"##;
        let plan = plan(text, Path::new("shop.yaml"), None).unwrap();
        let written = plan.to_toml();
        assert!(written.contains("additionalProperties = false") && written.contains("bearer = "), "{written}");
        assert!(written.contains(r#"required = ["name"]"#) && written.contains(r#""body"]"#), "{written}");
        let notes = plan.notes.join("\n");
        for left_out in ["POST /tags", "PATCH /merge", "POST /far"] {
            assert!(notes.contains(left_out), "{left_out} is not in {notes}");
        }
    }

    #[test]
    fn a_description_without_an_address_or_a_write_says_what_is_missing() {
        let failed = |text: &str| plan(text, Path::new("x.json"), None).unwrap_err().to_string();
        assert!(failed(r#"{"openapi":"3.1.0","paths":{}}"#).contains("--url"));
        assert!(
            failed(r#"{"openapi":"3.1.0","servers":[{"url":"https://a.example"}],"paths":{}}"#)
                .contains("no operation")
        );
        let secret =
            failed(r#"{"openapi":"3.1.0","servers":[{"url":"https://me:hunter2@a.example/v1?k=hunter3"}],"paths":{}}"#);
        assert!(secret.contains("a.example/v1") && secret.contains("--url") && !secret.contains("hunter"), "{secret}");
        assert!(failed(r#"{"swagger":"2.0"}"#).contains("no OpenAPI 3"));
        assert!(failed("{").contains("x.json"));
    }
}
