#include "text/form/schema_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/strings.h"
#include "hone/error.h"
#include "io/json.h"

namespace hone::text {
namespace {

constexpr int kDeepestMerge = 60, kDeepestApart = 4, kMostSteps = 20'000;
constexpr io::JsonLimits kLimits{.bytes = 1'000'000, .depth = 100, .kind = ErrorKind::config, .keeps_integers = true};

const std::set<std::string> kAnnotations{"title",    "description", "default",     "examples",   "example",
                                         "$schema",  "$id",         "$comment",    "deprecated", "readOnly",
                                         "writeOnly", "$defs",      "definitions", "discriminator"};

// Keywords that are held, and the type whose values they are about; "": all.
const std::vector<std::pair<std::string, std::string>> kHeld{
    {"type", ""},         {"enum", ""},        {"const", ""},           {"anyOf", ""},
    {"oneOf", ""},        {"allOf", ""},       {"$ref", ""},            {"properties", "object"},
    {"required", "object"}, {"additionalProperties", "object"},         {"items", "array"},
    {"prefixItems", "array"}, {"additionalItems", "array"},             {"minItems", "array"},
    {"maxItems", "array"}, {"minLength", "string"}, {"maxLength", "string"}, {"pattern", "string"},
    {"format", "string"}, {"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"}};

const std::vector<std::string> kTypes{"object", "array", "string", "number", "boolean", "null"};

// "a/b" in a pointer.
std::string unescaped(std::string_view part) {
  return replace_all(replace_all(std::string(part), "~1", "/"), "~0", "~");
}

std::string shown(const Schema& value) {
  return escape_for_terminal(value.dump(-1, ' ', false, Schema::error_handler_t::replace), 60);
}

bool overlap(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto base = [](const std::string& type) { return type == "integer" ? std::string("number") : type; };
  return std::ranges::any_of(
      a, [&](const auto& one) { return std::ranges::any_of(b, [&](const auto& o) { return base(one) == base(o); }); });
}

}  // namespace

bool is_of_type(const Schema& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() || (value.is_number_float() && std::trunc(value.get<double>()) == value);
}

std::optional<std::vector<Schema>> listed_values(const Schema& schema) {
  const bool has_list = schema.contains("enum"), has_one = schema.contains("const");
  if (!has_list && !has_one) return std::nullopt;
  std::vector<Schema> values;
  if (has_list)
    for (const Schema& value : schema["enum"])
      if (!has_one || value == schema["const"]) values.push_back(value);
  if (!has_list) values.push_back(schema["const"]);
  return values;
}

SchemaDocument::SchemaDocument(std::string_view text, const std::string& what)
    : what_(what), root_(io::parse_ordered_json(text, what, kLimits)) {
  if (const auto digits = io::find_big_integer(root_))
    throw Error(ErrorKind::config, fmt::format("{}: the number {} does not fit 64 bits", what, *digits));
}

void SchemaDocument::fail(const std::string& path, const std::string& fact, const std::string& hint) const {
  Error error(ErrorKind::config, fmt::format("{}: {}: {}", what_, escape_for_terminal(path, 200), fact));
  if (hint.empty()) throw error;
  throw std::move(error).hint(hint);
}

const Schema& SchemaDocument::target(const std::string& reference, const std::string& at) const {
  if (!reference.starts_with("#"))
    fail(at + "/$ref", fmt::format("got {}, expected a part of this schema, as #/$defs/name", hone::quoted(reference)));
  const Schema* found = &root_;
  std::string_view rest = std::string_view(reference).substr(1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string part = unescaped(rest.substr(1, end - 1));
    const auto number = parse_int(part);
    if (rest[0] == '/' && found->is_object() && found->contains(part))
      found = &(*found)[part];
    else if (rest[0] == '/' && found->is_array() && number && *number >= 0 && *number < std::ssize(*found))
      found = &(*found)[static_cast<std::size_t>(*number)];
    else
      fail(at + "/$ref", fmt::format("there is no {}", hone::quoted(reference)));
    rest.remove_prefix(end);
  }
  return *found;
}

bool SchemaDocument::says_nothing(const Schema& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  return std::ranges::all_of(schema.items(), [](const auto& item) { return kAnnotations.contains(item.key()); });
}

SchemaAt SchemaDocument::plain(const SchemaAt& given) const { return plain(given, 0); }

SchemaAt SchemaDocument::plain(const SchemaAt& given, int depth) const {
  if (depth > kDeepestMerge || ++steps_ > kMostSteps)
    fail(given.path, "references and conjunctions lead to others without end, or too far");
  if (given.schema.is_boolean()) return given;
  if (!given.schema.is_object()) fail(given.path, fmt::format("got {}, expected an object", shown(given.schema)));
  Schema rest = given.schema;
  rest.erase("$ref"), rest.erase("allOf");
  SchemaAt made{rest, given.path};
  const bool alone = says_nothing(rest);
  if (given.schema.contains("allOf")) {
    const Schema& all = given.schema["allOf"];
    if (!all.is_array()) fail(given.path + "/allOf", "expected a list");
    for (std::size_t i = 0; i < all.size(); ++i) {
      SchemaAt one{all[i], fmt::format("{}/allOf/{}", given.path, i)};
      // The only part of a conjunction, and nothing beside it.
      if (alone && all.size() == 1 && !given.schema.contains("$ref")) return plain(one, depth + 1);
      made = {merged(made.schema, merged_reference(one, depth), given.path), given.path};
    }
  }
  if (!given.schema.contains("$ref")) return made;
  if (!given.schema["$ref"].is_string()) fail(given.path + "/$ref", "expected a text");
  if (alone && !given.schema.contains("allOf")) return {{{"$ref", given.schema["$ref"]}}, given.path};
  return {merged(made.schema, merged_reference({{{"$ref", given.schema["$ref"]}}, given.path}, depth), given.path),
          given.path};
}

// What a reference leads to in the end.
Schema SchemaDocument::merged_reference(const SchemaAt& given, int depth) const {
  SchemaAt made = plain(given, depth + 1);
  while (made.schema.is_object() && made.schema.contains("$ref")) {
    const std::string reference = made.schema["$ref"].get<std::string>();
    made = plain({target(reference, made.path), made.path}, ++depth + 1);
  }
  return made.schema;
}

SchemaAt SchemaDocument::merged(const SchemaAt& a, const SchemaAt& b) const {
  return {merged(merged_reference(a, 0), merged_reference(b, 0), b.path), b.path};
}

Schema SchemaDocument::merged(const Schema& a, const Schema& b, const std::string& path) const {
  if (a.is_boolean() || b.is_boolean()) {
    const Schema& first = a.is_boolean() ? a : b;
    return first.get<bool>() ? (a.is_boolean() ? b : a) : first;
  }
  const auto closes = [](const Schema& schema) {
    return schema.contains("additionalProperties") && schema["additionalProperties"] != true;
  };
  const auto names = [](const Schema& schema) {
    std::set<std::string> all;
    if (schema.contains("properties"))
      for (const auto& [name, value] : schema["properties"].items()) all.insert(name);
    return all;
  };
  if ((closes(a) || closes(b)) && !says_nothing(a) && !says_nothing(b) &&
      (names(a) != names(b)) && !(names(a).empty() && !closes(a)) && !(names(b).empty() && !closes(b)))
    fail(path, "additionalProperties in a conjunction whose parts have other properties",
         "additionalProperties is of the properties beside it alone: put them all in one object");
  Schema made = a;
  for (const auto& [key, value] : b.items()) merge_key(key, made, value, path);
  return made;
}

void SchemaDocument::merge_properties(Schema& into, const Schema& from) const {
  for (const auto& [name, value] : from.items())
    if (!into.contains(name))
      into[name] = value;
    else if (into[name] != value)
      into[name] = {{"allOf", {into[name], value}}};
}

void SchemaDocument::merge_key(const std::string& key, Schema& into, const Schema& value,
                               const std::string& path) const {
  if (kAnnotations.contains(key) || !into.contains(key) || into[key] == value) {
    if (!into.contains(key)) into[key] = value;
    return;
  }
  Schema& own = into[key];
  if (key == "properties" && own.is_object() && value.is_object()) return merge_properties(own, value);
  if (key == "additionalProperties" && own == true) return void(own = value);
  if (key == "additionalProperties" && value == true) return;
  if (key == "items") return void(own = {{"allOf", {own, value}}});
  const bool is_least = key == "minLength" || key == "minItems" || key == "minimum" || key == "exclusiveMinimum";
  const bool is_most = key == "maxLength" || key == "maxItems" || key == "maximum" || key == "exclusiveMaximum";
  if ((is_least || is_most) && own.is_number() && value.is_number()) {
    if (is_least ? own < value : value < own) own = value;
    return;
  }
  if (key == "required" && own.is_array() && value.is_array()) {
    for (const Schema& name : value)
      if (std::ranges::find(own, name) == own.end()) own.push_back(name);
    return;
  }
  if (key == "type") {
    Schema both = Schema::array();
    const auto list = [](const Schema& types) { return types.is_array() ? types : Schema::array({types}); };
    for (const Schema& a : list(own))
      for (const Schema& b : list(value))
        if (a == b || (a == "number" && b == "integer")) both.push_back(b);
        else if (a == "integer" && b == "number") both.push_back(a);
    own = both;
    return;
  }
  if (key == "enum" && own.is_array() && value.is_array()) {
    Schema both = Schema::array();
    for (const Schema& one : own)
      if (std::ranges::find(value, one) != value.end()) both.push_back(one);
    own = both;
    return;
  }
  fail(path, fmt::format("{} twice, of parts that hold at once", hone::quoted(key)), "write one schema that says both");
}

std::vector<std::string> SchemaDocument::types(const Schema& plain) const {
  std::vector<std::string> all;
  if (plain.contains("type")) {
    const Schema& type = plain["type"];
    for (const Schema& one : type.is_array() ? type : Schema::array({type}))
      if (one.is_string()) all.push_back(one.get<std::string>());
    return all;
  }
  for (const std::string& type : kTypes)
    if (std::ranges::any_of(kHeld, [&](const auto& held) { return held.second == type && plain.contains(held.first); }))
      all.push_back(type);
  return all.empty() ? kTypes : all;
}

bool SchemaDocument::are_apart(const SchemaAt& a, const SchemaAt& b, int depth) const {
  if (depth > kDeepestApart) return false;
  const Schema one = merged_reference(a, 0), other = merged_reference(b, 0);
  if (!one.is_object() || !other.is_object()) return false;
  const auto values = listed_values(one), others = listed_values(other);
  if (values && others)
    return std::ranges::none_of(*values, [&](const auto& v) { return std::ranges::count(*others, v) > 0; });
  const auto outside = [&](const std::vector<Schema>& listed, const Schema& schema) {
    const auto named = types(schema);
    const auto is_of_one = [&](const Schema& value) {
      return std::ranges::any_of(named, [&](const std::string& type) { return is_of_type(value, type); });
    };
    return std::ranges::none_of(listed, is_of_one);
  };
  if (values || others) return values ? outside(*values, other) : outside(*others, one);
  // A keyword says nothing of other types: what names none may be of any.
  if (one.contains("type") && other.contains("type") && !overlap(types(one), types(other))) return true;
  if (!one.contains("properties") || !other.contains("properties")) return false;
  if (one.value("type", "") != "object" || other.value("type", "") != "object") return false;
  const auto requires_it = [](const Schema& schema, const std::string& name) {
    return schema.contains("required") &&
           std::ranges::any_of(schema["required"], [&](const Schema& one) { return one == name; });
  };
  for (const auto& [name, value] : one["properties"].items()) {
    if (!other["properties"].contains(name) || !requires_it(one, name) || !requires_it(other, name)) continue;
    if (are_apart({value, a.path}, {other["properties"][name], b.path}, depth + 1))
      return true;
  }
  return false;
}

void SchemaDocument::check_keywords(const SchemaAt& plain) const {
  for (const auto& [key, value] : plain.schema.items()) {
    if (kAnnotations.contains(key) || std::ranges::any_of(kHeld, [&](const auto& held) { return held.first == key; }))
      continue;
    const bool is_neutral = (key == "uniqueItems" && value == false) || (key == "minProperties" && value == 0) ||
                            (key == "nullable" && value == false) ||
                            (key == "unevaluatedProperties" && value == true);
    if (!is_neutral) fail(plain.path + "/" + key, "answers cannot be held to this keyword");
  }
  const auto wants = [&](const char* key, bool fits, const char* expected) {
    if (plain.schema.contains(key) && !fits)
      fail(plain.path + "/" + key, fmt::format("got {}, expected {}", shown(plain.schema[key]), expected));
  };
  const auto is = [&](const char* key, auto&& fits) { return plain.schema.contains(key) && fits(plain.schema[key]); };
  for (const char* key : {"minItems", "maxItems", "minLength", "maxLength"})
    wants(key, is(key, [](const Schema& v) { return v.is_number_integer() && v >= 0 && v <= 1'000'000; }),
          "a whole number from 0 to 1000000");
  wants("properties", is("properties", [](const Schema& v) { return v.is_object(); }), "an object");
  for (const char* key : {"anyOf", "oneOf", "prefixItems", "enum"})
    wants(key, is(key, [](const Schema& v) { return v.is_array() && !v.empty(); }), "a list that is not empty");
  wants("required", is("required", [](const Schema& v) {
          return v.is_array() && std::ranges::all_of(v, [](const Schema& one) { return one.is_string(); });
        }),
        "a list of names");
  for (const char* key : {"pattern", "format"})
    wants(key, is(key, [](const Schema& v) { return v.is_string(); }), "a text");
  for (const std::string& type : types(plain.schema))
    if (type != "integer" && std::ranges::find(kTypes, type) == kTypes.end())
      fail(plain.path + "/type", fmt::format("got {}, expected {} or integer", hone::quoted(type), join(kTypes, ", ")));
  const bool named = !plain.schema.contains("type") || plain.schema["type"].is_string() ||
                     (plain.schema["type"].is_array() &&
                      std::ranges::all_of(plain.schema["type"], [](const Schema& one) { return one.is_string(); }));
  wants("type", named, "a name, or a list of names");
}

}  // namespace hone::text
