import { VENDOR_TITLES } from "../api/vendors";

export function vendorName(vendor: string): string {
  return VENDOR_TITLES[vendor] ?? vendor;
}

// One vendor, or several separated by commas.
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
