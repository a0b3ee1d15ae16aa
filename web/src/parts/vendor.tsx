const NAMES: Record<string, string> = {
  nvidia: "NVIDIA",
  amd: "AMD",
  ascend: "Ascend",
  furiosa: "Furiosa",
};

export function vendorName(vendor: string): string {
  return NAMES[vendor] ?? vendor;
}

// One vendor, or several with commas between, as rows of nodes have them.
export function Vendor({ vendor }: { vendor: string }) {
  return (
    <span class="vendor">
      {vendor
        .split(",")
        .map((one) => vendorName(one.trim()))
        .join(", ")}
    </span>
  );
}
