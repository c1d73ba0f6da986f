// Documents in two parts: a prompt, and an answer whose tokens are learnt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hone/batch.h"

namespace hone::objectives {

// A document from behind its prompt on. targets: of the prompt's last token, which is the answer's first, and of these.
struct AnswerTokens {
  std::vector<std::int64_t> ids = {}, targets = {};
};
// The prompt ends with the token whose target is the first that is learnt; all of a document that learns nothing.
struct DocumentParts {
  std::vector<std::int64_t> prompt = {};
  AnswerTokens answer = {};
};

// Those of a batch, read to the host once.
class PartedDocuments {
 public:
  explicit PartedDocuments(const Batch& batch);
  DocumentParts of(std::size_t doc) const;  // its number in Batch::docs

 private:
  const Batch& batch_;
  Tensor ids_BT_, targets_BT_;
};

}  // namespace hone::objectives
