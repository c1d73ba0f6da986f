// One element's update by Sophia: for the host's loop and, as text, for a GPU's kernel (optim/elementwise.h).
template <class T>
struct Element {
  static constexpr int kStates = 2;
  T scale, keep;  // Common
  T learning_rate, to_m, rho, eps;

  HONE_ELEMENT void update(T g, T& w, T& m, T& curvature) const {
    m = m + to_m * (g * scale - m);
    const T ratio = m / (rho * curvature + eps);
    const T direction = ratio > 1 ? T(1) : ratio < -1 ? T(-1) : ratio;
    w = w * keep - learning_rate * direction;
  }
};
