// JSON Schemas as one object each: references followed, conjunctions merged, keywords known.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hone::text {

using Schema = nlohmann::ordered_json;

// A schema, and the path that errors name.
struct SchemaAt {
  Schema schema;
  std::string path;
};

class SchemaDocument {
 public:
  // Throws Error(config) that begins with `what`.
  SchemaDocument(std::string_view text, const std::string& what);

  const Schema& root() const { return root_; }
  // What "#/$defs/x" stands for. at: who refers to it.
  const Schema& target(const std::string& reference, const std::string& at) const;
  // Without $ref and allOf beside other constraints: both are merged into what stands beside them. A schema that is
  // nothing but a reference stays one.
  SchemaAt plain(const SchemaAt& given) const;
  // Both at once.
  SchemaAt merged(const SchemaAt& a, const SchemaAt& b) const;
  // Whether it can be seen that no value is of both.
  bool are_apart(const SchemaAt& a, const SchemaAt& b, int depth = 0) const;
  // Types that it names, or that its keywords are of; all of them where it says nothing.
  std::vector<std::string> types(const Schema& plain) const;
  // Error(config): a keyword that is not held.
  void check_keywords(const SchemaAt& plain) const;
  static bool says_nothing(const Schema& schema);  // but for annotations
  [[noreturn]] void fail(const std::string& path, const std::string& fact, const std::string& hint = "") const;

 private:
  SchemaAt plain(const SchemaAt& given, int depth) const;
  Schema merged(const Schema& a, const Schema& b, const std::string& path) const;
  Schema merged_reference(const SchemaAt& given, int depth) const;
  void merge_key(const std::string& key, Schema& into, const Schema& value, const std::string& path) const;
  void merge_properties(Schema& into, const Schema& from) const;

  const std::string& what_;
  Schema root_;
  mutable int steps_ = 0;  // references and conjunctions that were followed
};

// Values that an enum or const allows, by their types; nothing: there is neither.
std::optional<std::vector<Schema>> listed_values(const Schema& schema);
bool is_of_type(const Schema& value, const std::string& type);

}  // namespace hone::text
