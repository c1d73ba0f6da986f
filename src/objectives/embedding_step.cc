// The vectors of a whole step.
#include "objectives/embedding_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "base/hash.h"
#include "hone/error.h"
#include "hone/world.h"
#include "tensor/device.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

Tensor sent_there(const std::vector<std::int64_t>& values, const Tensor& like) {
  return devices::sent(host::tensor_of(values, {std::ssize(values)}), like.device());
}

// Those of texts' tokens are as wide as the longest text asks for (nn/token_vectors.h).
Tensor widened(const Tensor& rows, std::int64_t width) {
  return rows.size(1) == width ? rows : at::constant_pad_nd(rows, {0, width - rows.size(1)});
}

Tensor joined_rows(const Tensor& a, const Tensor& b) { return a.defined() && b.defined() ? at::cat({a, b}) : Tensor(); }

// Numbers of documents: of each pair the two, and of other documents, which have a pair.
struct PlacesInStep {
  std::vector<std::int64_t> query, document, other, owner;
};

// alone: texts are queries, and nothing else is there.
PlacesInStep places_in_step(const std::vector<TextMember>& members, bool alone) {
  std::map<std::int64_t, std::int64_t> pair_of;  // group -> number of its pair
  PlacesInStep places;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].role == Role::query) {
      pair_of[members[i].group] = std::ssize(places.query);
      places.query.push_back(static_cast<std::int64_t>(i));
    }
  places.document.assign(places.query.size(), -1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto pair = pair_of.find(members[i].group);
    if (members[i].role == Role::query || pair == pair_of.end()) continue;
    if (members[i].role == Role::chosen) {
      places.document[static_cast<std::size_t>(pair->second)] = static_cast<std::int64_t>(i);
      continue;
    }
    places.other.push_back(static_cast<std::int64_t>(i));
    places.owner.push_back(pair->second);
  }
  if (alone) places.document.clear();
  const bool whole = std::find(places.document.begin(), places.document.end(), -1) == places.document.end();
  if (!whole || places.query.size() + places.document.size() + places.other.size() != members.size())
    throw Error(ErrorKind::data, "a batch's documents: expected groups of a query, a document and others")
        .hint("does the collator keep role and group of documents?");
  return places;
}

// What ranks tell each other: how many, then columns one after another.
class Message {
 public:
  explicit Message(std::string text = "") : text_(std::move(text)) {}
  void put(std::span<const std::byte> bytes) {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void put(std::int64_t value) { put(std::as_bytes(std::span(&value, 1))); }
  std::int64_t take() {
    std::int64_t value = 0;
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void take(std::span<std::byte> into) {
    HONE_ASSERT(at_ + into.size() <= text_.size());
    std::memcpy(into.data(), text_.data() + at_, into.size());
    at_ += into.size();
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

void put_tensor(Message& message, const Tensor& x) {
  message.put(x.defined());
  if (x.defined()) message.put(host::bytes(host::read(x.contiguous())));
}

Tensor take_tensor(Message& message, at::IntArrayRef shape, at::ScalarType type) {
  if (message.take() == 0) return {};
  Tensor made = at::empty(shape, type);
  message.take(host::mutable_bytes(made));
  return made;
}

}  // namespace

std::vector<TextMember> members_of(const Batch& batch) {
  std::vector<TextMember> members;
  for (const Doc& doc : batch.docs) members.push_back({doc.role, doc.group});
  return members;
}

void StepTexts::add(const StepTexts& more) {
  if (members.empty()) return void(*this = more);
  if (more.members.empty()) return;
  std::int64_t next = 0;
  for (const TextMember& one : members) next = std::max(next, one.group + 1);
  for (const TextMember& one : more.members) members.push_back({one.role, next + one.group});
  const std::int64_t width = std::max(vector_SD.size(1), more.vector_SD.size(1));
  vector_SD = at::cat({widened(vector_SD, width), widened(more.vector_SD, width)});
  text_S = joined_rows(text_S, more.text_S);
  score_S2 = joined_rows(score_S2, more.score_S2);
  guided_SD = joined_rows(guided_SD, more.guided_SD);
  class_S = joined_rows(class_S, more.class_S);
}

StepTexts texts_of(const Batch& batch, const Tensor& vector_SD) {
  const auto extra = [&](const char* name) {
    const auto found = batch.extra.find(name);
    return found == batch.extra.end() ? Tensor() : found->second.to(vector_SD.device());
  };
  return {members_of(batch), vector_SD, extra(kTextIds), extra(kScores), extra(kGuided), extra(kClasses)};
}

StepTexts gathered(const StepTexts& own, const World& world, std::int64_t& first) {
  first = 0;
  if (world.size() == 1) return own;
  Message message;
  message.put(own.size());
  message.put(own.size() == 0 ? 0 : own.vector_SD.size(1));
  message.put(own.guided_SD.defined() ? own.guided_SD.size(1) : 0);
  for (const TextMember& one : own.members) message.put(static_cast<std::int64_t>(one.role)), message.put(one.group);
  if (own.size() > 0)
    for (const Tensor& x : {own.vector_SD, own.text_S, own.score_S2, own.guided_SD, own.class_S})
      put_tensor(message, x);
  StepTexts all;
  const std::vector<std::string> told = world.gather(std::move(message).text());
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (rank == static_cast<std::size_t>(world.rank())) first = all.size();
    Message theirs(told[rank]);
    StepTexts one;
    const std::int64_t size = theirs.take(), width = theirs.take(), guided_width = theirs.take();
    for (std::int64_t i = 0; i < size; ++i) {
      const auto role = static_cast<Role>(theirs.take());
      one.members.push_back({role, theirs.take()});
    }
    if (size == 0) continue;
    const at::ScalarType type = own.size() > 0 ? own.vector_SD.scalar_type() : at::kFloat;
    one.vector_SD = take_tensor(theirs, {size, width}, type);
    one.text_S = take_tensor(theirs, {size}, at::kLong);
    one.score_S2 = take_tensor(theirs, {size, 2}, at::kDouble);
    one.guided_SD = take_tensor(theirs, {size, guided_width}, at::kFloat);
    one.class_S = take_tensor(theirs, {size}, at::kLong);
    all.add(one);
  }
  if (own.size() == 0) return all;
  const at::Device device = own.vector_SD.device();
  for (Tensor* x : {&all.vector_SD, &all.text_S, &all.score_S2, &all.guided_SD, &all.class_S})
    if (x->defined()) *x = x->to(device);
  return all;
}

EmbeddedTexts compared(const StepTexts& texts) {
  const PlacesInStep places = places_in_step(texts.members, texts.class_S.defined());
  const Tensor& all_SD = texts.vector_SD;
  const Tensor wide_SD = all_SD.to(at::kDouble);
  const Tensor query_P = sent_there(places.query, all_SD), document_P = sent_there(places.document, all_SD),
               other_O = sent_there(places.other, all_SD);
  EmbeddedTexts made;
  made.query_PD = wide_SD.index_select(0, query_P);
  made.document_PD = wide_SD.index_select(0, document_P);
  made.other_OD = wide_SD.index_select(0, other_O);
  made.owner_O = sent_there(places.owner, all_SD);
  if (texts.text_S.defined()) {
    made.query_text_P = texts.text_S.index_select(0, query_P);
    made.document_text_P = texts.text_S.index_select(0, document_P);
    made.other_text_O = texts.text_S.index_select(0, other_O);
  }
  if (texts.guided_SD.defined()) {
    const Tensor guided_SD = texts.guided_SD.to(at::kDouble);
    made.guide_query_PD = guided_SD.index_select(0, query_P);
    made.guide_document_PD = guided_SD.index_select(0, document_P);
    made.guide_other_OD = guided_SD.index_select(0, other_O);
  }
  if (texts.class_S.defined()) made.class_P = texts.class_S.index_select(0, query_P);
  if (!texts.score_S2.defined()) return made;
  const Tensor score_S = texts.score_S2.select(1, 0);
  made.score_P = score_S.index_select(0, query_P);
  made.teacher_P = score_S.index_select(0, document_P), made.teacher_O = score_S.index_select(0, other_O);
  return made;
}

Tensor text_ids(const Batch& batch) {
  const auto ids = host::values<std::int64_t>(batch.ids_BT);
  std::vector<std::int64_t> all;
  for (const Doc& doc : batch.docs) {
    const auto begin = static_cast<std::size_t>(doc.row * batch.length() + doc.begin);
    const auto text = ids.subspan(begin, static_cast<std::size_t>(doc.end - doc.begin));
    all.push_back(static_cast<std::int64_t>(hash64(std::as_bytes(text))));
  }
  return host::tensor_of(all, {std::ssize(all)});
}

std::int64_t count_texts(Role role, const Batch& batch) {
  return std::count_if(batch.docs.begin(), batch.docs.end(), [&](const Doc& doc) { return doc.role == role; });
}

}  // namespace hone::objectives
