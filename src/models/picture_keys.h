// What config.json of a model of texts and pictures says beside its sections, and of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "hone/config.h"
#include "hone/model.h"

namespace hone::models {

// Ids of texts, which stand beside the sections.
struct TextIds {
  config::Open bos_token_id, eos_token_id, pad_token_id;

  static constexpr auto fields() {
    using C = TextIds;
    return std::tuple{
        field("bos_token_id", &C::bos_token_id, "Token that begins texts."),
        field("eos_token_id", &C::eos_token_id, "Token that ends texts, or several."),
        field("pad_token_id", &C::pad_token_id, "Kept for others: text_config says which row gets no gradient.")};
  }
};
// c: TextIds, or what has the same three.
template <class C>
void write_ids(const C& c, config::Node& node) {
  for (const auto& [key, id] : {std::pair{"bos_token_id", &c.bos_token_id},
                                {"eos_token_id", &c.eos_token_id},
                                {"pad_token_id", &c.pad_token_id}})
    if (!id->node.is_null()) node.at_or_add(key) = id->node;
}

// That stands for pictures, or beside them. A problem: it is none of `vocab` tokens.
std::int32_t picture_token(std::int64_t token, const char* key, std::int64_t vocab, Problems& problems);

// A problem: a model of texts of this type is none that the whole may have.
void check_type_of_texts(const std::string& type, std::initializer_list<const char*> known, Problems& problems);

// Throws Error(config): there is a head for labels, or for masked tokens, that is asked for.
void refuse_labels(const HeadRequest& head, const std::string& model_type);
void warn_left_out(const std::vector<std::string>& ids, std::int64_t vocab);

// What a configuration means that a model is made of. Throws Error(config): a problem with it, or a head that is asked
// for. Tells what has no effect, and which ids are left out.
template <class Shape>
Shape settled(Shape shape, const std::string& model_type, const HeadRequest& head, Problems& problems) {
  problems.raise("the model's configuration");
  refuse_labels(head, model_type);
  warn_ignored(shape.text_config);
  if constexpr (requires { shape.left_out; }) warn_left_out(shape.left_out, shape.texts.vocab);
  return shape;
}
template <class C>
auto picture_shape(const C& config, const HeadRequest& head) {
  Problems problems;
  auto shape = resolve(config, problems);
  return settled(std::move(shape), config.model_type, head, problems);
}

// text_config as it is written: without what stands above it. tied: what it says of its head itself.
config::Node section_of_texts(config::Node written, bool tied);

}  // namespace hone::models
