// From config.json of BERT and its relatives to what it means.
#include "models/bert_config.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace hone::models {
namespace {

BertShape resolve(const BertConfig& c, Problems& problems) {
  BertShape s;
  const auto only = [&](const char* key, bool holds, const std::string& got, const char* expected) {
    problems.require(holds, key, fmt::format("got {}, expected {}", got, expected));
  };
  only("is_decoder", !c.is_decoder, "true", "false: it reads in both directions");
  only("add_cross_attention", !c.add_cross_attention, "true", "false");
  const std::string positions = c.position_embedding_type.value_or("absolute");
  only("position_embedding_type", positions == "absolute", hone::quoted(positions), "absolute");
  read_shape(c, s, problems);
  s.classifier_dropout = c.classifier_dropout.value_or(c.hidden_dropout_prob);
  return s;
}

BertShape resolve(const RobertaConfig& c, Problems& problems) {
  BertShape s = resolve(as_bert(c), problems);
  problems.require(s.no_gradient_id >= 0, "pad_token_id", "none, expected one: positions count from behind it");
  s.first_position = s.no_gradient_id + 1;
  problems.require(c.max_position_embeddings > s.first_position, "max_position_embeddings",
                   fmt::format("got {}, expected more than pad_token_id + 1, behind which positions begin",
                               c.max_position_embeddings));
  return s;
}

}  // namespace

void BertConfig::validate(Problems& problems) const { resolve(*this, problems); }
void RobertaConfig::validate(Problems& problems) const { resolve(*this, problems); }

BertShape resolve(const BertConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}
BertShape resolve(const RobertaConfig& c, const HeadRequest& head) {
  Problems problems;
  return with_head(resolve(c, problems), head, c.tie_word_embeddings, problems);
}

}  // namespace hone::models
